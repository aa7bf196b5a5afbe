"""Anchored globs, matched in bounded time for any pattern, and the annotations that list them.

A regular expression of ``*a*a*a`` can take seconds, and one of a thousand globs a second to
compile. Here names without a wildcard are a set, and all patterns of a list run together as one
automaton, the bits of one integer (Shift-And, Baeza-Yates and Gonnet 1992): each character of a
text costs four operations on an integer of as many bits as the patterns have characters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from copyrator.api.fields import SpecError
from copyrator.api.schema import Takes, custom, items, reader, text
from copyrator.api.syntax import Check

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
