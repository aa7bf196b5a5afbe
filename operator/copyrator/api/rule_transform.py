"""Parses ``spec.transform`` and ``spec.template``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from copyrator.api import names, syntax
from copyrator.api.fields import Fields, SpecError
from copyrator.api.globs import read_globs
from copyrator.api.rule_spec import KeyTransform, MetadataTransform, Template, Transform
from copyrator.settings.limits import RULE_DEPTH

TEMPLATE_TEXT: Final = 65_536  # limit: rules
"""Characters of one string that may contain Jinja2: compiling 64 KiB of nothing but Jinja2 takes
some two seconds in the child process."""

TEMPLATE_TEXTS: Final = 262_144  # limit: rules
"""Characters of all strings of one template, keys included: it is compiled after each edit, and
rendered for each target."""

_DATA_KINDS: Final = ("ConfigMap", "Secret")
_TYPE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9._/]*[A-Za-z0-9])?", re.ASCII)
_TYPE_LENGTH: Final = 253
_SERVERS_TYPES: Final = frozenset(
    {
        "kubernetes.io/service-account-token",
        "bootstrap.kubernetes.io/token",
        "helm.sh/release.v1",
    }
)
"""Types that grant rights, or count as something else's record."""


def read_transform(transform: Fields, kind: str) -> Transform:
    """Parse ``spec.transform``. ``kind`` is the source's."""
    if transform.has("keys") and kind not in _DATA_KINDS:
        transform.fail("keys", f"must be removed: a {kind} has no data keys")
    if transform.has("type") and kind != "Secret":
        transform.fail("type", f"must be removed: a {kind} has no type")
    return Transform(
        name=transform.text("name", _length),
        type=transform.text("type", _secret_type),
        keys=_read_keys(transform.sub("keys")),
        labels=_read_labels(transform.sub("labels")),
        annotations=_read_annotations(transform.sub("annotations")),
    )


def _secret_type(value: str) -> str | None:
    if len(value) > _TYPE_LENGTH or not _TYPE.fullmatch(value):
        return f"{syntax.shown(value)} isn't a valid type of a Secret, such as Opaque"
    if value in _SERVERS_TYPES:
        return f"must not be {value}: controllers act on Secrets of this type; use Opaque"
    return None


def _read_keys(keys: Fields) -> KeyTransform:
    rename = keys.text_map("rename", syntax.data_key, syntax.data_key)
    taken: dict[str, str] = {}
    for old, new in rename.items():
        path = f"{keys.at('rename')}[{old}]"
        if not new:
            raise SpecError(path, "must not be empty; set the key's name in the copy")
        if other := taken.get(new):
            raise SpecError(path, f"collides with {other}: both would be named {new}")
        taken[new] = old
    include = read_globs(keys, "include", _key_glob)
    exclude = read_globs(keys, "exclude", _key_glob)
    for old in rename:
        if exclude.matches(old) or (include and not include.matches(old)):
            raise SpecError(
                f"{keys.at('rename')}[{old}]",
                "renames a key that include and exclude filter out; rename takes the source's keys",
            )
    return KeyTransform(include=include, exclude=exclude, rename=rename)


def _read_labels(labels: Fields) -> MetadataTransform:
    add = labels.text_map("add", syntax.label_key, syntax.label_value)
    return _metadata(labels, add)


def _read_annotations(annotations: Fields) -> MetadataTransform:
    return _metadata(annotations, annotations.text_map("add", syntax.label_key))


def _metadata(fields: Fields, add: dict[str, str]) -> MetadataTransform:
    remove = read_globs(fields, "remove", _metadata_glob)
    for key in add:
        path = f"{fields.at('add')}[{key}]"
        if key == names.LABEL_MANAGED_BY or key.startswith(names.RULE_PREFIX):
            raise SpecError(path, "is set by the operator; remove it")
        if remove.matches(key):
            raise SpecError(path, "is both added and removed; remove one of the two")
    return MetadataTransform(add=add, remove=remove)


def _key_glob(value: str) -> str | None:
    return syntax.data_key(value.replace("*", "x").replace("?", "x")) and (
        f"{syntax.shown(value)} isn't a valid pattern for keys; use letters, digits, '-', '_', "
        "'.', "
        "and the wildcards '*' and '?'"
    )


def _metadata_glob(value: str) -> str | None:
    return syntax.label_key(value.replace("*", "x").replace("?", "x")) and (
        f"{syntax.shown(value)} isn't a valid pattern for label or annotation "
        "keys; write the whole key, with '*' and '?' as wildcards"
    )


def read_template(template: Fields) -> Template:
    """Parse ``spec.template``: a whole object, each string of which may contain Jinja2."""
    kind = template.required_text("kind", syntax.kind)
    api_version = template.required_text("apiVersion", syntax.api_version)
    metadata = template.sub("metadata")
    metadata.required_text("name")
    for field, hint in _FORBIDDEN_METADATA.items():
        if metadata.has(field):
            metadata.fail(field, f"must be removed: {hint}")
    if metadata.has("namespace") and metadata.get("namespace") != "{{ namespace.name }}":
        metadata.fail("namespace", "must be removed: the operator sets each target namespace")
    for field in ("labels", "annotations"):
        metadata.text_map(field)
    if kind == "Secret":
        template.sub("data"), template.sub("stringData")
    if template.has("status"):
        template.fail("status", "must be removed: the object's controller sets it")
    left = TEMPLATE_TEXTS
    for path, text in template_texts(template.raw, template.path):
        left -= len(text)
        if problem := _length(text):
            raise SpecError(path_of(path), problem)
        if left < 0:
            raise SpecError(
                template.path,
                f"its strings are longer than {TEMPLATE_TEXTS} characters in total; split the rule",
            )
    return Template(kind=kind, api_version=api_version, body=template.raw)


_FORBIDDEN_METADATA: Final = {
    "generateName": "copies have fixed names; set metadata.name",
    "ownerReferences": "owner references can't cross namespaces",
    "finalizers": "no controller would remove them",
    "uid": "the API server sets it",
    "resourceVersion": "the API server sets it",
    "managedFields": "the API server sets it",
    "creationTimestamp": "the API server sets it",
}


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


def _length(text: str) -> str | None:
    if len(text) > TEMPLATE_TEXT:
        return f"is longer than {TEMPLATE_TEXT} characters; shorten it"
    return None
