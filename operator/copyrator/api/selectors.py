"""What selects names and objects: anchored globs, annotations that list them, label selectors.

A regular expression of ``*a*a*a`` can take seconds, and one of a thousand globs a second to
compile. Here names without a wildcard are a set, and all patterns of a list run together as one
automaton, the bits of one integer (Shift-And, Baeza-Yates and Gonnet 1992): each character of a
text costs four operations on an integer of as many bits as the patterns have characters.

A label selector is evaluated by the API server (``to_string``), so that other objects cost nothing,
and here (``matches``), for cached objects; the meaning is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Final

from copyrator.api.schema import (
    LABEL_KEY,
    LABEL_VALUE,
    Form,
    Rule,
    SpecError,
    Takes,
    custom,
    entries,
    fail,
    form_reader,
    items,
    reader,
    text,
)
from copyrator.api.text import Check

MAX_GLOBS: Final = 1_000
"""Patterns of one list of globs in a rule, and patterns with a wildcard in one allow-to or
allow-from annotation: they are matched together in 0.5 ms."""

MAX_GLOB_TEXT: Final = 65_536
"""Characters of all patterns with a wildcard in one list: the bits of the automaton that matches
them, built in 20 ms."""

_START: Final = ord("\n")
"""Between two patterns; no pattern that can match a name or a key contains it."""
_LOOP: Final = 0x80
"""Set on the character before a ``*``: its state stays set for any character."""
_ANY: Final = ord("?")


@dataclass(frozen=True, slots=True)
class Globs:
    """Patterns of ``*`` (any characters) and ``?`` (one), anchored at both ends.

    No patterns match nothing; whether that means "none" or "all" depends on the field. They are
    matched with names and keys as Kubernetes allows them: a pattern with a wildcard and with a
    character outside printable ASCII matches nothing.
    """

    patterns: tuple[str, ...] = ()
    _names: frozenset[str] = field(default=frozenset(), init=False, repr=False, compare=False)
    _automaton: _Automaton | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        wild = [pattern for pattern in self.patterns if is_wild(pattern)]
        if len(wild) < len(self.patterns):
            names = frozenset(pattern for pattern in self.patterns if not is_wild(pattern))
            object.__setattr__(self, "_names", names)
        if wild:
            object.__setattr__(self, "_automaton", _Automaton(wild))

    def __bool__(self) -> bool:
        return bool(self.patterns)

    @property
    def literal(self) -> bool:
        """Every pattern names exactly one thing."""
        return self._automaton is None

    @property
    def names(self) -> frozenset[str]:
        """The patterns without a wildcard."""
        return self._names

    def matches(self, text: str) -> bool:
        """Whether any pattern matches the whole text."""
        return text in self._names or (
            self._automaton is not None and self._automaton.matches(text)
        )

    def cost(self, texts: Iterable[str]) -> int:
        """The cost of matching all these texts, in steps of one state and one character."""
        states = self._automaton.states if self._automaton else 1
        return states * sum(map(len, texts))


class _Automaton:
    """The patterns one after the other; bit i is set where all before place i has been matched."""

    __slots__ = ("_any", "_by_character", "_finals", "_loops", "_starts", "states")

    def __init__(self, patterns: Iterable[str]) -> None:
        usable = (p for p in patterns if p.isascii() and p.isprintable())
        text = "\n".join(["", *dict.fromkeys(usable)]).encode("ascii")
        *looped, last = text.split(b"*")
        marked = [part[:-1] + _MARKED[part[-1]] for part in looped if part]
        places = b"".join([*marked, last])
        backwards = places[::-1]  # the first place is the lowest bit
        self.states = len(places)
        self._any = _bits(backwards, _ANY)
        self._starts = _bits(backwards, _START)
        self._loops = int(backwards.translate(_IS_LOOP) or b"0", 2)
        self._finals = (self._starts >> 1) | (1 << self.states >> 1)
        self._by_character = {
            chr(code): self._any | _bits(backwards, code)
            for code in {place & ~_LOOP for place in set(places)} - {_ANY, _START}
        }

    def matches(self, text: str) -> bool:
        """Whether a pattern matches the whole text."""
        state = self._starts
        find, other, loops = self._by_character.get, self._any, self._loops
        for character in text:
            state = ((state << 1) & find(character, other)) | (state & loops)
            if not state:
                return False
        return bool(state & self._finals)


def _table(codes: Iterable[int]) -> bytes:
    table = bytearray(b"0" * 256)
    for code in codes:
        table[code] = ord("1")
    return bytes(table)


_MARKED: Final = tuple(bytes((code | _LOOP,)) for code in range(256))
_IS_LOOP: Final = _table(range(_LOOP, 256))


def _bits(backwards: bytes, code: int) -> int:
    """An integer with a bit for each place of one character."""
    return int(backwards.translate(_table((code, code | _LOOP))) or b"0", 2)


def is_wild(pattern: str) -> bool:
    """Whether a pattern may match several texts."""
    return "*" in pattern or "?" in pattern


NO_GLOBS: Final = Globs()
_MANY: Final = items(MAX_GLOBS, noun="patterns", remedy="split the rule")


def globs(
    pattern: str,
    check: Check,
    of_list: Takes = _MANY,
    *,
    length: int,
    least: int = 0,
    empty: str = "",
) -> Takes:
    """A list of globs, each of so many characters and matching a pattern.

    ``empty`` is said of an empty list; without it one is accepted, also where the API server
    requires ``least`` items.
    """
    one = text(check, most=length, pattern=pattern)
    read_patterns = _reader(one, of_list)

    def read(raw: Any) -> Globs:
        if empty and raw == []:
            raise SpecError("", empty)
        return read_patterns(raw)

    bounds = {"minItems": least} if least else {}
    return custom(read, of_list.schema | bounds | {"items": one.schema})


def _reader(one: Takes, of_list: Takes) -> Callable[[Any], Globs]:
    read_patterns = reader(tuple[Annotated[str, one], ...], of_list)

    def read(raw: Any) -> Globs:
        patterns = read_patterns(raw)
        characters = sum(len(pattern) for pattern in patterns if is_wild(pattern))
        if characters > MAX_GLOB_TEXT:
            raise SpecError(
                "",
                f"has {characters} characters in patterns with wildcards; at most {MAX_GLOB_TEXT} "
                "are allowed: use fewer or shorter ones",
            )
        return Globs(patterns)

    return read


MAX_CONSENT_TEXT: Final = 256 * 1024
"""Characters of an allow-to or allow-from annotation: as many as the API server allows all
annotations of an object together."""


@dataclass(frozen=True, slots=True)
class Consent:
    """An annotation of consent, parsed once."""

    listed: frozenset[str] = frozenset()
    globs: Globs = NO_GLOBS
    problem: str | None = None
    """Why it is invalid, for its author: it allows nothing then."""

    def names(self, namespace: str) -> bool:
        """Whether it names a namespace."""
        return namespace in self.listed or self.globs.matches(namespace)


def read_consent(annotations: Mapping[str, str], annotation: str) -> Consent | None:
    """Parse an annotation of consent; None where it is absent."""
    text = annotations.get(annotation)
    return None if text is None else _parse_consent(text)


def _parse_consent(text: str) -> Consent:
    if len(text) > MAX_CONSENT_TEXT:
        return Consent(problem=f"is longer than {MAX_CONSENT_TEXT} characters")
    parts = {part.strip() for part in text.split(",")} - {""}
    wild = {part for part in parts if is_wild(part)} if is_wild(text) else set()
    if len(wild) > MAX_GLOBS:
        return Consent(
            problem=f"has {len(wild)} patterns with wildcards; at most {MAX_GLOBS} are allowed"
        )
    if sum(map(len, wild)) > MAX_GLOB_TEXT:
        return Consent(
            problem=f"has more than {MAX_GLOB_TEXT} characters in patterns with wildcards"
        )
    return Consent(frozenset(parts - wild), Globs(tuple(wild)))


# Label selectors ---------------------------------------------------------------------------------

MAX_REQUIREMENTS: Final = 64
"""Labels and expressions of one selector: matched for each namespace and each source."""


class Operator(StrEnum):
    """The operators of ``matchExpressions``."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class Requirement(Form):
    """One condition on one label."""

    RULES = (
        Rule(
            "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 "
            ": !has(self.values) || size(self.values) == 0",
            "In and NotIn require values; Exists and DoesNotExist allow none",
        ),
    )

    key: Annotated[str, LABEL_KEY]
    """The label's key."""
    operator: Annotated[Operator, Takes({}, required=f"is required: one of {', '.join(Operator)}")]
    """How the label is compared."""
    values: Annotated[frozenset[Annotated[str, LABEL_VALUE]], items(64, noun="values")] = (
        frozenset()
    )
    """Values for In and NotIn."""

    def __post_init__(self) -> None:
        takes_values = self.operator in (Operator.IN, Operator.NOT_IN)
        if takes_values and not self.values:
            fail("values", f"must name at least one value for {self.operator}")
        if not takes_values and self.values:
            fail("values", f"must be removed: {self.operator} takes no values")

    def order(self) -> tuple[str, ...]:
        """By what requirements are sorted."""
        return (self.key, self.operator, *sorted(self.values))

    @property
    def value(self) -> str | None:
        """The one value that the label must have; None where there isn't one."""
        return next(iter(self.values)) if self.operator == "In" and len(self.values) == 1 else None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """As in Kubernetes: ``NotIn`` also holds for an object without the label."""
        value = labels.get(self.key)
        if self.operator is Operator.IN:
            return value in self.values
        if self.operator is Operator.NOT_IN:
            return value not in self.values
        return (value is not None) == (self.operator is Operator.EXISTS)

    def to_string(self) -> str:
        """The form of the ``labelSelector`` parameter."""
        if self.operator is Operator.EXISTS:
            return self.key
        if self.operator is Operator.DOES_NOT_EXIST:
            return f"!{self.key}"
        if self.value is not None:
            return f"{self.key}={self.value}"
        word = "in" if self.operator is Operator.IN else "notin"
        return f"{self.key} {word} ({','.join(sorted(self.values))})"


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold. They are sorted, so equal meanings share one watch."""

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> LabelSelector:
        """A selector for objects with all these labels."""
        return cls.of(_equal(labels))

    @classmethod
    def of(cls, requirements: Iterable[Requirement]) -> LabelSelector:
        """A selector in canonical order."""
        return cls(tuple(sorted(set(requirements), key=Requirement.order)))

    @property
    def empty(self) -> bool:
        """An empty selector matches everything."""
        return not self.requirements

    @property
    def labels(self) -> dict[str, str]:
        """The labels whose value is the same on every matching object."""
        return {want.key: want.value for want in self.requirements if want.value is not None}

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether the labels match; None counts as no labels."""
        found = labels or {}
        return all(requirement.matches(found) for requirement in self.requirements)

    def to_string(self) -> str:
        """The form of the ``labelSelector`` parameter; empty selects everything."""
        return ",".join(requirement.to_string() for requirement in self.requirements)


def _equal(labels: Mapping[str, str]) -> list[Requirement]:
    return [Requirement(key, Operator.IN, frozenset((value,))) for key, value in labels.items()]


class SelectorForm(Form):
    """A selector as it is written."""

    match_labels: Annotated[
        Mapping[Annotated[str, LABEL_KEY], Annotated[str, LABEL_VALUE]],
        entries(MAX_REQUIREMENTS),
    ] = {}
    """Labels and values that an object must have."""
    match_expressions: Annotated[tuple[Requirement, ...], items(MAX_REQUIREMENTS)] = ()
    """Requirements on labels, as in Kubernetes."""


def read_selector(raw: Any) -> LabelSelector:
    """Read ``{matchLabels, matchExpressions}``.

    Raises:
        SpecError: with the path below it.
    """
    if isinstance(raw, Mapping):
        for stray in sorted(set(map(str, raw)) - {"matchLabels", "matchExpressions"}):
            fail(stray, "isn't a field of a selector; put labels under matchLabels")
    found = form_reader(SelectorForm)(raw)
    count = len(found.match_labels) + len(found.match_expressions)
    if count > MAX_REQUIREMENTS:
        raise SpecError("", f"has {count} requirements; at most {MAX_REQUIREMENTS} are allowed")
    return LabelSelector.of([*_equal(found.match_labels), *found.match_expressions])


def selecting(empty: str, rules: tuple[Rule, ...] = ()) -> Takes:
    """A selector of at least one label; ``empty`` is said of another."""

    def read(raw: Any) -> LabelSelector:
        found = read_selector(raw)
        if found.empty:
            raise SpecError("", empty)
        return found

    return custom(read, like=SelectorForm, rules=rules)


ANY_LABELS: Final = LabelSelector()
"""The selector that matches everything."""
