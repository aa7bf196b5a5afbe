"""``spec.template`` of a rule: a whole object of any form, with Jinja2 in its strings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, NoReturn

from copyrator.api.fields import Fields, SpecError
from copyrator.api.schema import OPEN, Form, Rule, custom, fail, form_reader, text
from copyrator.api.texts import API_VERSION, KIND

RULE_DEPTH: Final = 64
"""Levels of nesting in a rule's spec: some functions that traverse it are recursive."""

RENDERED_TEXT: Final = 1_048_576
"""Characters of one string while it is rendered: more than an object may have."""

RENDERED_OBJECT: Final = 1_572_864
"""Characters of all strings of one rendered object: etcd's limit of an object, in bytes."""

TEMPLATE_TEXT: Final = 65_536
"""Characters of one string that may contain Jinja2: compiling 64 KiB of nothing but Jinja2 takes
some two seconds in the child process."""

TEMPLATE_TEXTS: Final = 262_144
"""Characters of all strings of one template, keys included: it is compiled after each edit, and
rendered for each target."""


@dataclass(frozen=True, slots=True)
class Template:
    """An object rendered for each target namespace; ``body`` is as written, not rendered."""

    body: Mapping[str, Any] = field(hash=False)

    @property
    def kind(self) -> str:
        """The kind of the copies."""
        return str(self.body["kind"])

    @property
    def api_version(self) -> str:
        """Their apiVersion."""
        return str(self.body["apiVersion"])


_OWN_NAMESPACE: Final = "{{ namespace.name }}"


_SHORT: Final = {"type": "string", "maxLength": 253}


def _read_namespace(raw: Any) -> str:
    if raw != _OWN_NAMESPACE:
        raise SpecError("", "must be removed: the operator sets each target namespace")
    return _OWN_NAMESPACE


def _refuse_generated(_raw: Any) -> NoReturn:
    raise SpecError("", "must be removed: copies have fixed names; set metadata.name")


class TemplateMetadata(Form):
    """What is known of a template's metadata; the rest is written by the author of the rule."""

    RULES = (
        Rule(
            f"!has(self.__namespace__) || self.__namespace__ == '{_OWN_NAMESPACE}'",
            "remove metadata.namespace: the operator sets each target namespace",
        ),
        Rule(
            "!has(self.generateName)",
            "remove metadata.generateName: the objects of a rule have fixed names",
        ),
    )

    name: Annotated[str, text(most=1024)]
    """Name of the object; may contain Jinja2 expressions, for example ad-kubernetes-{{
    namespace.name }}."""
    namespace: Annotated[str, custom(_read_namespace, _SHORT)] | None = None
    """Not supported: the operator sets each target namespace."""
    generate_name: Annotated[str, custom(_refuse_generated, _SHORT)] | None = None
    """Not supported; set name."""


class TemplateForm(Form):
    """What is known of a template."""

    api_version: Annotated[str, API_VERSION]
    """apiVersion of the object; no Jinja2 here."""
    kind: Annotated[str, KIND]
    """Kind of the object, any namespaced kind that the operator is allowed to create; no Jinja2
    here."""
    metadata: Annotated[TemplateMetadata, replace(OPEN, required="is required, with a name")]
    """Name, labels and annotations of the object."""


_FORBIDDEN_METADATA: Final = {
    "ownerReferences": "owner references can't cross namespaces",
    "finalizers": "no controller would remove them",
    "uid": "the API server sets it",
    "resourceVersion": "the API server sets it",
    "managedFields": "the API server sets it",
    "creationTimestamp": "the API server sets it",
}


def read_template(raw: Any) -> Template:
    """Read a whole object, each string of which may contain Jinja2."""
    form = form_reader(TemplateForm)(raw)
    template = Fields(raw, "")
    metadata = Fields(template.get("metadata"), ".metadata")
    for name, hint in _FORBIDDEN_METADATA.items():
        if metadata.has(name):
            metadata.fail(name, f"must be removed: {hint}")
    for name in ("labels", "annotations"):
        metadata.text_map(name)
    if form.kind == "Secret":
        for name in ("data", "stringData"):
            Fields(template.get(name), f".{name}")
    if template.has("status"):
        fail("status", "must be removed: the object's controller sets it")
    _check_texts(template.raw)
    return Template(template.raw)


def _check_texts(template: Mapping[str, Any]) -> None:
    left = TEMPLATE_TEXTS
    for place, found in template_texts(template, ""):
        left -= len(found)
        if problem := _length(found):
            raise SpecError(path_of(place), problem)
        if left < 0:
            raise SpecError(
                "",
                f"its strings are longer than {TEMPLATE_TEXTS} characters in total; split the rule",
            )


Place = tuple[Any, str | int]
"""The place of a value: the place of its container, and its key or index in that."""


def path_of(place: Place) -> str:
    """A place as text. Built only for messages: keys may be long, and many."""
    steps: list[str] = []
    above: Place | None = place
    while above is not None:
        above, step = above
        shown = f"[{step}]" if isinstance(step, int) else f".{step}"
        steps.append(shown if above else str(step))
    return "".join(reversed(steps))


def template_texts(root: Mapping[str, Any], path: str) -> Iterator[tuple[Place, str]]:
    """Every text in a template, keys included, with its place; not recursive.

    Raises:
        SpecError: it is nested too deeply.
    """
    pending: list[tuple[Place, Any, int]] = [((None, path), root, 0)]
    while pending:
        here, value, depth = pending.pop()
        if depth > RULE_DEPTH:
            raise SpecError(path, f"is nested more than {RULE_DEPTH} levels deep")
        if isinstance(value, str):
            yield here, value
        elif isinstance(value, dict):
            for key, item in value.items():
                yield here, str(key)
                pending.append(((here, str(key)), item, depth + 1))
        elif isinstance(value, list):
            pending += [((here, i), item, depth + 1) for i, item in enumerate(value)]


def _length(found: str) -> str | None:
    if len(found) > TEMPLATE_TEXT:
        return f"is longer than {TEMPLATE_TEXT} characters; shorten it"
    return None
