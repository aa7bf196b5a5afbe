"""``spec.tagFilter``: regular expressions that take linear time on any tag.

Python's ``re`` backtracks, and holds the interpreter while it does: one hostile pattern in one
tenant's Bundle, ``(a+)+b`` say, would stop the operator for everybody. RE2 doesn't, and its syntax
is the one that users know from Flux and other tools in Go: no back-references, no look-around.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import re2

MAX_LENGTH: Final = 256
"""Characters of a pattern."""
MAX_MEMORY: Final = 1 << 20
"""Bytes that RE2 may take for a compiled pattern and its matching."""


class FilterError(ValueError):
    """A pattern that can't be used; the text says what is wrong."""


class TagFilter:
    """A compiled filter; it matches a whole tag or nothing.

    Raises:
        FilterError: the pattern can't be used.
    """

    __slots__ = ("_pattern",)

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_LENGTH:
            raise FilterError(f"must have at most {MAX_LENGTH} characters")
        options = re2.Options()
        options.log_errors = False
        options.max_mem = MAX_MEMORY
        try:
            self._pattern = re2.compile(pattern, options)
        except (re2.error, UnicodeEncodeError) as error:
            raise FilterError(_said(error)) from None

    def matches(self, tag: str) -> bool:
        """Tell whether the filter takes the whole tag."""
        return self._pattern.fullmatch(tag) is not None


@lru_cache(maxsize=1_024)
def compile_filter(pattern: str) -> TagFilter:
    """Compile a pattern once, however many Bundles and polls use it.

    Raises:
        FilterError: the pattern can't be used.
    """
    return TagFilter(pattern)


def _said(error: Exception) -> str:
    """RE2's own words, which name the fault and the place; it hands them over as bytes."""
    said = error.args[0]
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(error)
