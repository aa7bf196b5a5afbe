"""Reads a CopyratorRule, in the old form or with ``spec``, into a RuleSpec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

import msgspec

from copyrator.api.fields import Fields, InvalidSpec, SpecError, check_text, json_type, unreadable
from copyrator.api.rule_spec import WELL_KNOWN_KINDS, CopiedSource, Made, OldRule, RuleSpec
from copyrator.api.rule_status import RuleStatus
from copyrator.api.rule_template import RULE_DEPTH, Place, path_of
from copyrator.api.schema import (
    AGE,
    MESSAGE,
    OPEN,
    READY,
    REASON,
    Column,
    Form,
    Root,
    Rule,
    custom,
    entries,
    fail,
    items,
    read,
    reader,
    slots,
)
from copyrator.api.selectors import ANY_LABELS, LabelSelector
from copyrator.api.syntax import check_label_key, check_label_value, check_namespace, shown
from copyrator.api.texts import LABEL_KEY, LABEL_VALUE, NAMESPACE

RULE_VALUES: Final = 20_000
"""Maps, lists, strings and other values in a rule's spec: parsing each takes a microsecond or two.
A thousand globs in each list with 64 x 64 expressions in each selector are 17,000."""

SELECTOR_TEXT: Final = 16_384
"""Characters of a selector that is written as one string (old form): splitting them takes 15 ms."""

RULE_TYPES: Final = {"configmap": "ConfigMap", "secret": "Secret"}
_NESTING: Final = (dict, list)
_NAMESPACES: Final = items(1000, remedy="split the rule")


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
            kind = _read_type(fields.get("ruleType"))
            return kind, WELL_KNOWN_KINDS[kind]
        spec = fields.sub("spec")
        made = read(Made, spec.get("source" if spec.has("source") else "template"), "spec")
        return made.kind, made.known_version
    except SpecError:
        return None


def _check_size(body: Fields) -> None:
    """Refuse what would take long to parse; stops counting at the bound."""
    level: list[tuple[Place, Any]] = [
        ((None, name), body.get(name)) for name in ("spec", *(one.name for one in slots(OldForm)))
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
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            parts += [((place, key), part) for key, part in pairs if type(part) in _NESTING]
        if not parts:
            return
        level = parts
    top = ".".join(path_of(level[0][0]).split(".")[:2])
    raise SpecError(top, f"is nested more than {RULE_DEPTH} levels deep")


def _read(body: Fields) -> RuleSpec:
    old = [one.name for one in slots(OldForm) if body.has(one.name)]
    home = _home(body)
    if body.has("spec"):
        if old:
            body.fail(
                "spec", f"can't be combined with the old form; remove {', '.join(old)} or spec"
            )
        return read(RuleSpec, body.get("spec"), "spec").at(home)
    if not old:
        body.fail("spec", "is required: set spec.source or spec.template")
    return read(OldForm, body.raw, "").to_spec(home)


def _home(body: Fields) -> str:
    found = body.sub("metadata").get("namespace")
    return found if isinstance(found, str) and found else "default"


# The old form -----------------------------------------------------------------------------------


def _read_type(raw: Any) -> str:
    """The kind of a ``ruleType``, in any letter case."""
    found = check_text(raw, "")
    kind = RULE_TYPES.get(found.lower()) if len(found) <= 63 else None
    if kind is None:
        raise SpecError(
            "",
            f"must be configmap or secret, not {shown(found)}; "
            "other kinds are copied by spec.source",
        )
    return kind


_read_namespaces: Final = reader(tuple[Annotated[str, NAMESPACE], ...], _NAMESPACES)


def _read_namespace(raw: Any) -> tuple[str, ...]:
    """One namespace, or a list of them."""
    if not isinstance(raw, str | list):
        raise SpecError("", f"must be a string or a list of strings, not {json_type(raw)}")
    if isinstance(raw, str):
        return (check_text(raw, "", check_namespace),)
    found: tuple[str, ...] = _read_namespaces(raw)
    return found


_read_labels: Final = reader(
    Mapping[Annotated[str, LABEL_KEY], Annotated[str, LABEL_VALUE]],
    entries(1000, "split the rule"),
)


def _read_selector(raw: Any) -> LabelSelector:
    if isinstance(raw, str):
        if len(raw) > SELECTOR_TEXT:
            raise SpecError("", f"is longer than {SELECTOR_TEXT} characters; use spec.source")
        return LabelSelector.from_labels(_split_labels(raw))
    if isinstance(raw, Mapping):
        return LabelSelector.from_labels(_read_labels(raw))
    raise SpecError("", f"must be a map of labels or a string key=value, not {json_type(raw)}")


def _split_labels(text: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        key, sign, value = (piece.strip() for piece in part.partition("="))
        problem = check_label_key(key) or check_label_value(value)
        if not sign or problem:
            why = f": {problem}" if sign and problem else ""
            raise SpecError(
                "",
                f"{shown(part)} is not key=value{why}; "
                "for other conditions use spec.source.selector",
            )
        if labels.setdefault(key, value) != value:
            raise SpecError("", f"requires two values of the label {shown(key)}")
    return labels


class OldForm(Form):
    """The fields of the old form, beside ``metadata``."""

    kind: Annotated[
        str,
        custom(
            _read_type,
            {"type": "string", "maxLength": 63},
            rules=(
                Rule(
                    "self.lowerAscii() in ['configmap', 'secret']",
                    "ruleType must be configmap or secret; other kinds are copied by spec.source",
                ),
            ),
        ),
    ] = msgspec.field(default="", name="ruleType")
    """Old form: what is copied, configmap or secret, in any letter case. Under spec:
    spec.source.kind."""
    selector: Annotated[LabelSelector, custom(_read_selector, OPEN.schema)] = ANY_LABELS
    """Old form: labels that a source must have, all of them. A map of label to value, or one string
    key=value[,key2=value2]. At least one label is required, and at most 16,384 characters. Under
    spec: spec.source.selector."""
    namespace: Annotated[tuple[str, ...], custom(_read_namespace, OPEN.schema)] = ()
    """Old form: the sources' namespace, or a list of namespaces. Default: the rule's own namespace.
    Under spec: spec.source.namespace."""
    namespaces: Annotated[tuple[Annotated[str, NAMESPACE], ...], _NAMESPACES] = ()
    """Old form: the same as namespace, always a list; if both are set, both lists apply. Under
    spec: spec.source.namespaces."""

    def __post_init__(self) -> None:
        if not self.kind:
            fail("ruleType", "is required")
        # None at all would copy every Secret of the namespace into the whole cluster. That can't be
        # meant, so a missing or empty selector is refused.
        if self.selector.empty:
            fail(
                "selector",
                "must name at least one label; without one, everything in the namespace "
                "would be copied to every other",
            )

    def to_spec(self, home: str) -> OldRule:
        """The same as a spec."""
        source = CopiedSource(
            self.kind,
            selector=self.selector,
            listed=tuple(dict.fromkeys(self.namespace + self.namespaces)),
        )
        return OldRule(source=source.at(home))


# The whole object --------------------------------------------------------------------------------

_NAMED_TARGETS: Final = (
    "!has({0}.spec) || has({0}.spec.targets) && (has({0}.spec.targets.selector) "
    "? has({0}.spec.targets.selector.matchLabels) && "
    "size({0}.spec.targets.selector.matchLabels) > 0 "
    "|| has({0}.spec.targets.selector.matchExpressions) && "
    "size({0}.spec.targets.selector.matchExpressions) > 0 "
    ": has({0}.spec.targets.namespaces))"
)
_NO_TARGETS: Final = (
    'targets must say which namespaces get a copy: set targets.namespaces (["*"] for all), or '
    "targets.selector with at least one label under matchLabels or matchExpressions"
)


class CopyratorRule(OldForm, Root):
    """A rule that keeps copies of objects, or objects created from a template, in many namespaces.

    Its fields are under spec. The old form, with ruleType, selector and namespace next to metadata,
    is accepted unchanged; a rule has one form or the other, never both. Rules in the operator's own
    namespace are trusted; rules elsewhere aren't served unless tenant rules are enabled.
    """

    NAMES: ClassVar[Mapping[str, Any]] = {
        "plural": "copyrators",
        "singular": "copyrator",
        "shortNames": ["copyr"],
        "categories": ["copyrator-all"],
    }
    COLUMNS = (
        Column("Ready", f"{READY}.status", "Whether every desired copy is up to date."),
        REASON,
        Column("Desired", ".status.copies.desired", "Copies that the rule requires.", "integer"),
        Column("Copied", ".status.copies.ready", "Copies that are up to date.", "integer"),
        Column("Failed", ".status.copies.failed", "Copies that could not be written.", "integer"),
        Column(
            *("Conflicts", ".status.copies.conflicts"),
            "Targets that are owned by another rule or client.",
            *("integer", 1),
        ),
        MESSAGE,
        AGE,
    )
    RULES = (
        Rule(
            "!(has(self.spec) && (has(self.ruleType) || has(self.namespaces)))",
            "spec can't be combined with the old form: remove ruleType, selector, namespace and "
            "namespaces, or remove spec",
        ),
        Rule(
            "has(self.spec) || has(self.ruleType)",
            "set spec with a source or a template (or, in the old form, ruleType with selector)",
        ),
        # For a new rule, which has no status, and for an edit. Neither concerns writes of the
        # status or the finalizers of a stored rule without targets, which Kubernetes 1.29 validates
        # anew.
        Rule(f"has(self.status) || {_NAMED_TARGETS.format('self')}", _NO_TARGETS, ".spec.targets"),
        Rule(
            f"[oldSelf, self].map(one, {_NAMED_TARGETS.format('one')}) != [true, false]",
            *(_NO_TARGETS, ".spec.targets"),
        ),
    )

    spec: RuleSpec | None = None
    """What is copied, where to, and how: at most 20,000 values, 64 levels deep."""
    status: RuleStatus | None = None
    """Observed state. Set by the operator."""
