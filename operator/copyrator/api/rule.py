"""Parses a CopyratorRule, in the old form or with ``spec``, into RuleSpec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from copyrator.api import names, syntax
from copyrator.api.fields import Fields, InvalidSpec, SpecError, json_type, unreadable
from copyrator.api.globs import read_globs
from copyrator.api.kubeconfig import read_kubeconfig_ref
from copyrator.api.rollout import read_rollout
from copyrator.api.rule_spec import (
    DEFAULT_LIMIT,
    DEFAULT_MAX_DELETE,
    MAX_LIMIT,
    WELL_KNOWN_KINDS,
    ComposedSource,
    ConflictPolicy,
    DeletionPolicy,
    ImmutablePolicy,
    KeyTransform,
    MetadataTransform,
    Mode,
    RuleSpec,
    Source,
    Targets,
    Template,
    Transform,
)
from copyrator.api.selectors import LabelSelector, Operator, parse_selector
from copyrator.settings.limits import RULE_DEPTH

RULE_VALUES: Final = 20_000
"""Maps, lists, strings and other values in a rule's spec: parsing each takes a microsecond or two.
A thousand globs in each list with 64 x 64 expressions in each selector are 17,000."""

RULE_ITEMS: Final = 1_000
"""Items of one list or map of a rule's spec outside its template, as in the CRD."""

SELECTOR_TEXT: Final = 16_384
"""Characters of a selector that is written as one string (old form): splitting them takes 15 ms."""

COMPOSED_SOURCES: Final = 32
"""Entries of spec.sources, as in the CRD."""

_ALIAS: Final = syntax.matching(
    "[A-Za-z][A-Za-z0-9_]{0,62}",
    "can't be a name in a template; use at most 63 letters, digits and '_', beginning with a "
    "letter",
)


def read_source(source: Fields, home: str) -> Source:
    """Parse ``spec.source``; ``home`` is the rule's namespace."""
    if source.has("namespace") and source.has("namespaces"):
        source.fail("namespaces", "set either namespace or namespaces, not both")
    if source.get("namespaces") == []:
        source.fail(
            "namespaces", "must name a namespace; remove it to use the rule's own namespace"
        )
    many = source.texts("namespaces", syntax.namespace)
    return _source_in(source, many or _namespace(source, home))


def _namespace(source: Fields, home: str) -> tuple[str]:
    return (source.text("namespace", syntax.namespace) or home,)


def _source_in(source: Fields, namespaces: tuple[str, ...]) -> Source:
    kind = source.required_text("kind", syntax.kind)
    if source.has("name") == source.has("selector"):
        source.fail("name", "set exactly one of name and selector")
    return Source(
        kind=kind,
        api_version=source.text("apiVersion", syntax.api_version) or WELL_KNOWN_KINDS.get(kind),
        namespaces=namespaces,
        name=source.text("name", syntax.object_name),
        selector=_source_selector(source),
        kubeconfig=read_kubeconfig_ref(source.raw, source.path),
    )


def _source_selector(source: Fields) -> LabelSelector | None:
    if not source.has("selector"):
        return None
    selector = parse_selector(source.get("selector"), source.at("selector"))
    if selector.empty:
        source.fail(
            "selector",
            "must name at least one label; an empty one would select everything "
            f"of this kind; to do so, set {{key: …, operator: {Operator.DOES_NOT_EXIST}}}",
        )
    return selector


def read_sources(spec: Fields, home: str) -> tuple[ComposedSource, ...]:
    """Parse ``spec.sources``: each name once."""
    entries = spec.items("sources")
    if spec.get("sources") == []:
        spec.fail("sources", "must name a source; remove it for a template without sources")
    if len(entries) > COMPOSED_SOURCES:
        spec.fail("sources", f"has more than {COMPOSED_SOURCES} entries; use a selector")
    found: dict[str, ComposedSource] = {}
    for fields in spec.maps("sources", COMPOSED_SOURCES):
        alias = fields.required_text("as", _ALIAS)
        source = _source_in(fields, _namespace(fields, home))
        if alias in found:
            fields.fail("as", f"{alias} is the name of an earlier entry; choose another one")
        found[alias] = ComposedSource(alias, source, fields.flag("optional"))
    return tuple(found.values())


OLD_FIELDS: Final = ("ruleType", "selector", "namespace", "namespaces")
MAX_KIND: Final = 63
"""Characters of a kind."""
_NESTING: Final = (dict, list)
_PERCENTAGE: Final = syntax.matching(
    "(100|[1-9]?[0-9])%", 'isn\'t a percentage between "0%" and "100%"'
)
_NAMESPACE_GLOB: Final = syntax.matching(
    r"[-a-z0-9*?]*",
    "isn't a valid pattern for namespaces; use lower-case letters, digits, '-', and the wildcards "
    "'*' and '?'",
    63,
)
RULE_TYPES: Final = {"configmap": "ConfigMap", "secret": "Secret"}


def parse_rule(body: Any) -> RuleSpec | InvalidSpec:
    """Parse a CopyratorRule from the API server. Never raises, whatever the JSON.

    Jinja2 in it is not parsed: compiling takes long (copies/template/compiling.py).
    """
    try:
        fields = Fields(body, "")
        _check_size(fields)
        return _read(fields)
    except SpecError as error:
        return error.invalid
    except Exception as error:
        return unreadable(error)


def copies_kind(body: Any) -> tuple[str, str | None] | None:
    """Kind and apiVersion of a rule's copies, without parsing more; None where they are absent."""
    try:
        fields = Fields(body, "")
        if not fields.has("spec"):
            kind = RULE_TYPES.get(_lower(fields.get("ruleType")))
            return (kind, WELL_KNOWN_KINDS[kind]) if kind else None
        spec = fields.sub("spec")
        made = spec.sub("source" if spec.has("source") else "template")
        kind = made.required_text("kind", syntax.kind)
        return kind, made.text("apiVersion", syntax.api_version) or WELL_KNOWN_KINDS.get(kind)
    except SpecError:
        return None


def _lower(value: Any) -> str:
    return value.lower() if isinstance(value, str) and len(value) <= MAX_KIND else ""


def _check_size(body: Fields) -> None:
    """Refuse what would take long to parse; stops counting at the bound."""
    level: list[tuple[Place, Any]] = [
        ((None, name), body.get(name)) for name in ("spec", *OLD_FIELDS)
    ]
    values = 0
    for _ in range(RULE_DEPTH + 1):
        parts: list[tuple[Place, Any]] = []
        for place, value in level:
            if not isinstance(value, dict | list):
                continue
            values += len(value)
            if values > RULE_VALUES:
                raise SpecError("spec", f"has more than {RULE_VALUES} values; reduce it")
            if len(value) > RULE_ITEMS and not path_of(place).startswith("spec.template"):
                raise SpecError(path_of(place), f"has more than {RULE_ITEMS} items; split the rule")
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            parts += [((place, key), part) for key, part in pairs if type(part) in _NESTING]
        if not parts:
            return
        level = parts
    top = ".".join(path_of(level[0][0]).split(".")[:2])
    raise SpecError(top, f"is nested more than {RULE_DEPTH} levels deep")


def _read(body: Fields) -> RuleSpec:
    old = [name for name in OLD_FIELDS if body.has(name)]
    home = _home(body)
    if body.has("spec"):
        if old:
            body.fail(
                "spec", f"can't be combined with the old form; remove {', '.join(old)} or spec"
            )
        return _read_spec(body.sub("spec"), home)
    if not old:
        body.fail("spec", "is required: set spec.source or spec.template")
    return _read_old(body, home)


def _home(body: Fields) -> str:
    found = body.sub("metadata").get("namespace")
    return found if isinstance(found, str) and found else "default"


# The old form -----------------------------------------------------------------------------------


def _read_old(body: Fields, home: str) -> RuleSpec:
    rule_type = body.required_text("ruleType")
    kind = RULE_TYPES.get(_lower(rule_type))
    if kind is None:
        body.fail(
            "ruleType",
            f"must be configmap or secret, not {syntax.shown(rule_type)}; "
            "other kinds are copied by spec.source",
        )
    namespaces = _old_namespaces(body) or (home,)
    return RuleSpec(
        legacy=True,
        source=Source(
            kind=kind,
            api_version=WELL_KNOWN_KINDS[kind],
            namespaces=namespaces,
            selector=_old_selector(body),
        ),
    )


def _old_namespaces(body: Fields) -> tuple[str, ...]:
    """Both spellings together mean both lists; ``namespace`` may be one string."""
    value = body.get("namespace")
    if value is None or isinstance(value, list):
        first = body.texts("namespace", syntax.namespace)
    elif isinstance(value, str):
        first = (body.required_text("namespace", syntax.namespace),)
    else:
        body.fail("namespace", f"must be a string or a list of strings, not {json_type(value)}")
    return tuple(dict.fromkeys(first + body.texts("namespaces", syntax.namespace)))


def _old_selector(body: Fields) -> LabelSelector:
    """Labels that a source must have, all of them.

    None at all would copy every Secret of the namespace into the whole cluster. That can't be
    meant, so a missing or empty selector is refused.
    """
    value = body.get("selector")
    if isinstance(value, str):
        if len(value) > SELECTOR_TEXT:
            body.fail("selector", f"is longer than {SELECTOR_TEXT} characters; use spec.source")
        labels = _split_labels(value)
    elif value is None or isinstance(value, Mapping):
        labels = body.text_map("selector", syntax.label_key, syntax.label_value)
    else:
        body.fail(
            "selector", f"must be a map of labels or a string key=value, not {json_type(value)}"
        )
    if not labels:
        body.fail(
            "selector",
            "must name at least one label; without one, everything in the namespace "
            "would be copied to every other",
        )
    return LabelSelector.from_labels(labels)


def _split_labels(text: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        key, sign, value = (piece.strip() for piece in part.partition("="))
        problem = syntax.label_key(key) or syntax.label_value(value)
        if not sign or problem:
            why = f": {problem}" if sign and problem else ""
            raise SpecError(
                "selector",
                f"{syntax.shown(part)} is not key=value{why}; "
                "for other conditions use spec.source.selector",
            )
        if labels.setdefault(key, value) != value:
            raise SpecError("selector", f"requires two values of the label {syntax.shown(key)}")
    return labels


# Under spec --------------------------------------------------------------------------------------


def _read_spec(spec: Fields, home: str) -> RuleSpec:
    if spec.has("source") == spec.has("template"):
        spec.fail("source", "set exactly one of spec.source and spec.template")
    if spec.has("sources") and not spec.has("template"):
        spec.fail("sources", "needs spec.template, which reads them; to copy, set spec.source")
    template = None
    source = None
    if spec.has("template"):
        if spec.has("transform"):
            spec.fail("transform", "must be removed: put the changes into spec.template")
        template = read_template(spec.sub("template"))
    else:
        source = read_source(spec.sub("source"), home)
    share = f"{DEFAULT_MAX_DELETE}%"
    return RuleSpec(
        source=source,
        template=template,
        sources=read_sources(spec, home),
        targets=_read_targets(spec),
        transform=read_transform(spec.sub("transform"), source.kind if source else ""),
        on_conflict=spec.choice("onConflict", ConflictPolicy, ConflictPolicy.SKIP),
        on_immutable=spec.choice("onImmutable", ImmutablePolicy, ImmutablePolicy.FAIL),
        deletion_policy=spec.choice("deletionPolicy", DeletionPolicy, DeletionPolicy.DELETE),
        limit=spec.number("limit", DEFAULT_LIMIT, least=1, most=MAX_LIMIT),
        max_delete=int((spec.text("maxDelete", _PERCENTAGE) or share).removesuffix("%")),
        rollout=read_rollout(spec),
        mode=spec.choice("mode", Mode, Mode.APPLY),
        suspend=spec.flag("suspend"),
    )


def _read_targets(spec: Fields) -> Targets:
    """``spec.targets``: which namespaces is always said.

    The API server drops a misspelled field, unless the client asks for strict validation. What is
    absent or empty may therefore be a mistake, and must not mean every namespace.
    """
    targets = spec.sub("targets")
    found = Targets(
        namespaces=read_globs(targets, "namespaces", _NAMESPACE_GLOB),
        exclude=read_globs(targets, "exclude", _NAMESPACE_GLOB),
        selector=parse_selector(targets.get("selector"), targets.at("selector")),
    )
    if not found.namespaces and found.selector.empty:
        spec.fail("targets", NO_NAMESPACES)
    if targets.has("selector") and found.selector.empty:
        targets.fail("selector", EMPTY_SELECTOR)
    return found


NO_NAMESPACES: Final = (
    'must say which namespaces get a copy: set namespaces (["*"] for all), or selector with at '
    "least one label under matchLabels or matchExpressions"
)
EMPTY_SELECTOR: Final = (
    "must name at least one label under matchLabels or matchExpressions; remove it to select by "
    'namespaces alone (["*"] for all)'
)


TEMPLATE_TEXT: Final = 65_536
"""Characters of one string that may contain Jinja2: compiling 64 KiB of nothing but Jinja2 takes
some two seconds in the child process."""

TEMPLATE_TEXTS: Final = 262_144
"""Characters of all strings of one template, keys included: it is compiled after each edit, and
rendered for each target."""

_DATA_KINDS: Final = ("ConfigMap", "Secret")
_TYPE: Final = syntax.matching(
    r"[A-Za-z0-9]([-A-Za-z0-9._/]*[A-Za-z0-9])?",
    "isn't a valid type of a Secret, such as Opaque",
    253,
)
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
        keys=_read_keys(transform.sub("keys")) if transform.has("keys") else KeyTransform(),
        labels=_read_metadata(transform.sub("labels"), syntax.label_value),
        annotations=_read_metadata(transform.sub("annotations"), None),
    )


def _secret_type(value: str) -> str | None:
    if value in _SERVERS_TYPES:
        return f"must not be {value}: controllers act on Secrets of this type; use Opaque"
    return _TYPE(value)


def _read_keys(keys: Fields) -> KeyTransform:
    """``spec.transform.keys``. What is empty may be a mistake, and must not mean every key."""
    if not any(map(keys.has, ("include", "exclude", "rename"))):
        keys.fail("include", "is required, or exclude or rename; to copy every key, remove keys")
    if keys.get("include") == []:
        keys.fail("include", "must name a key; remove it to copy every key")
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


def _read_metadata(fields: Fields, value: syntax.Check | None) -> MetadataTransform:
    add = fields.text_map("add", syntax.label_key, value)
    remove = read_globs(fields, "remove", _metadata_glob)
    for key in add:
        path = f"{fields.at('add')}[{key}]"
        ours = key in (names.LABEL_MANAGED_BY, names.LABEL_GUARD)
        if ours or key.startswith(names.RULE_PREFIX):
            raise SpecError(path, "is set by the operator; remove it")
        if remove.matches(key):
            raise SpecError(path, "is both added and removed; remove one of the two")
    return MetadataTransform(add=add, remove=remove)


def _key_glob(value: str) -> str | None:
    return syntax.data_key(value.replace("*", "x").replace("?", "x")) and (
        f"{syntax.shown(value)} isn't a valid pattern for keys; use letters, digits, '-', '_', "
        "'.', and the wildcards '*' and '?'"
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
