"""``spec.tagFilter``: regular expressions that take linear time on any tag.

Python's ``re`` backtracks, and holds the interpreter while it does: one hostile pattern in one
tenant's Bundle, ``(a+)+b`` say, would stop the operator for everybody. So a filter is compiled to
an automaton here, as RE2 does, from the part of the syntax that has one: no back-references, no
look-around. A filter matches the whole tag.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NoReturn

MAX_LENGTH: Final = 256
"""Characters of a pattern."""
MAX_STATES: Final = 2_000
"""States of the automaton; ``{n,m}`` multiplies them."""
_MAX_CACHE: Final = 4_096
_MAX_REPEAT: Final = 128
"""A tag has at most 128 characters."""

_DIGITS = frozenset(string.digits)
_WORD = _DIGITS | frozenset(string.ascii_letters + "_")
_ALPHABET = _WORD | frozenset(".-")
"""What a tag is made of (OCI distribution specification, ``<reference>``)."""
_CLASSES: Final = {
    "d": _DIGITS,
    "D": _ALPHABET - _DIGITS,
    "w": _WORD,
    "W": _ALPHABET - _WORD,
    "s": frozenset[str](),
    "S": _ALPHABET,
}

_Chars = frozenset[str]
_Build = Callable[["_Automaton", int], int]
"""Adds a piece of the pattern behind a state, returns the state after it."""


class FilterError(ValueError):
    """A pattern that can't be used; the text says what is wrong and where."""


@dataclass(slots=True)
class _Automaton:
    """States with one step on characters each, or free moves."""

    steps: list[tuple[_Chars, int] | None] = field(default_factory=list)
    free: list[list[int]] = field(default_factory=list)

    def state(self) -> int:
        if len(self.steps) >= MAX_STATES:
            raise FilterError("repeats too much; write smaller numbers in {…}")
        self.steps.append(None)
        self.free.append([])
        return len(self.steps) - 1

    def reach(self, states: set[int]) -> frozenset[int]:
        """These states, and those that free moves lead to."""
        found, pending = set(states), list(states)
        while pending:
            for after in self.free[pending.pop()]:
                if after not in found:
                    found.add(after)
                    pending.append(after)
        return frozenset(found)


class TagFilter:
    """A compiled filter."""

    __slots__ = ("_automaton", "_cache", "_end", "_start", "pattern")

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._automaton = _Automaton()
        first = self._automaton.state()
        self._end = _Parser(pattern).parse()(self._automaton, first)
        self._start = self._automaton.reach({first})
        self._cache: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def matches(self, tag: str) -> bool:
        """Tell whether the whole tag matches."""
        states = self._start
        for char in tag:
            if not states:
                return False
            states = self._next(states, char)
        return self._end in states

    def _next(self, states: frozenset[int], char: str) -> frozenset[int]:
        known = self._cache.get((states, char))
        if known is None:
            steps = (self._automaton.steps[state] for state in states)
            known = self._automaton.reach({step[1] for step in steps if step and char in step[0]})
            if len(self._cache) >= _MAX_CACHE:
                self._cache.clear()
            self._cache[states, char] = known
        return known


@lru_cache(maxsize=256)
def compile_filter(pattern: str) -> TagFilter:
    """Compile a pattern.

    Raises:
        FilterError: saying what is wrong with it.
    """
    return TagFilter(pattern)


class _Parser:
    """Recursive descent: choice > sequence > repeat > atom."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise FilterError(f"must have at most {MAX_LENGTH} characters")
        self.text = text
        self.at = 0

    def parse(self) -> _Build:
        built = self.choice()
        if self.at < len(self.text):
            self.fail("has a ')' without '('")
        return built

    def fail(self, problem: str) -> NoReturn:
        raise FilterError(f"{problem} (at character {self.at + 1})")

    def peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""

    def take(self, text: str) -> bool:
        if not self.text.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def choice(self) -> _Build:
        branches = [self.sequence()]
        while self.take("|"):
            branches.append(self.sequence())
        return branches[0] if len(branches) == 1 else _either(branches)

    def sequence(self) -> _Build:
        parts: list[_Build] = []
        while self.peek() not in ("", "|", ")"):
            if self.take("^"):
                if parts:
                    self.fail("has a '^' that isn't at the beginning")
            elif self.take("$"):
                if self.peek() not in ("", "|", ")"):
                    self.fail("has a '$' that isn't at the end")
            else:
                parts.append(self.repeat())
        return _each(parts)

    def repeat(self) -> _Build:
        piece = self.atom()
        bounds = self.bounds()
        if bounds is None:
            return piece
        self.take("?")  # lazy or greedy is all the same for a whole match
        if self.peek() and self.peek() in "*+?":
            self.fail("repeats a repeat; put it into parentheses")
        return _times(piece, *bounds)

    def bounds(self) -> tuple[int, int | None] | None:
        for mark, found in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.take(mark):
                return found
        if not self.take("{"):
            return None
        least, comma, most = self.until("}").partition(",")
        numbers = [number for number in (least, most) if number]
        if not least or not all(number.isdecimal() and number.isascii() for number in numbers):
            self.fail("has braces that aren't {n}, {n,} or {n,m}")
        low, high = int(least), int(most) if most else None if comma else int(least)
        if max(low, high or 0) > _MAX_REPEAT or (high is not None and high < low):
            self.fail(f"must repeat between 0 and {_MAX_REPEAT} times, the smaller number first")
        return low, high

    def until(self, end: str) -> str:
        stop = self.text.find(end, self.at)
        if stop < 0:
            self.fail(f"lacks a '{end}'")
        found = self.text[self.at : stop]
        self.at = stop + len(end)
        return found

    def atom(self) -> _Build:
        if self.take("("):
            return self.group()
        if self.take("["):
            return _one(self.char_class())
        if self.take("."):
            return _one(_ALPHABET)
        if self.peek() in "*+?{":
            self.fail(f"has a '{self.peek()}' with nothing to repeat")
        return _one(self.escape() if self.take("\\") else self.literal())

    def group(self) -> _Build:
        if self.take("?P<"):
            self.until(">")
        elif self.take("?") and not self.take(":"):
            self.fail("has a look-around or option; only (…), (?:…) and (?P<name>…) are supported")
        inner = self.choice()
        if not self.take(")"):
            self.fail("lacks a ')'")
        return inner

    def literal(self) -> _Chars:
        self.at += 1
        return frozenset(self.text[self.at - 1])

    def escape(self) -> _Chars:
        char = self.peek()
        if char in _CLASSES:
            self.at += 1
            return _CLASSES[char]
        if not char or char.isalnum():
            self.fail(f"has an escape '\\{char}' that isn't supported")
        return self.literal()

    def char_class(self) -> _Chars:
        negated = self.take("^")
        found: set[str] = set()
        first = True
        while first or self.peek() != "]":
            first = False
            if not self.peek():
                self.fail("lacks a ']'")
            low = self.class_item()
            if self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("", "]"):
                self.at += 1
                high = self.class_item()
                if len(low) != 1 or len(high) != 1 or min(high) < min(low):
                    self.fail("has a range that isn't from a lower to a higher character")
                found |= {char for char in _ALPHABET if min(low) <= char <= min(high)}
            else:
                found |= low
        self.at += 1
        return frozenset(_ALPHABET - found if negated else found)

    def class_item(self) -> _Chars:
        return self.escape() if self.take("\\") else self.literal()


def _one(chars: _Chars) -> _Build:
    def build(automaton: _Automaton, before: int) -> int:
        after = automaton.state()
        here = automaton.state()
        automaton.free[before].append(here)
        automaton.steps[here] = (chars, after)
        return after

    return build


def _each(parts: list[_Build]) -> _Build:
    def build(automaton: _Automaton, before: int) -> int:
        for part in parts:
            before = part(automaton, before)
        return before

    return build


def _either(branches: list[_Build]) -> _Build:
    def build(automaton: _Automaton, before: int) -> int:
        after = automaton.state()
        for branch in branches:
            automaton.free[branch(automaton, before)].append(after)
        return after

    return build


def _times(piece: _Build, least: int, most: int | None) -> _Build:
    def build(automaton: _Automaton, before: int) -> int:
        for _ in range(least):
            before = piece(automaton, before)
        if most is None:
            loop = automaton.state()
            automaton.free[before].append(loop)
            automaton.free[piece(automaton, loop)].append(loop)
            return loop
        after = automaton.state()
        for _ in range(most - least):
            automaton.free[before].append(after)
            before = piece(automaton, before)
        automaton.free[before].append(after)
        return after

    return build
