"""``spec.tagFilter``: regular expressions that take linear time on any tag.

Python's ``re`` backtracks, and blocks the interpreter while it does: one hostile pattern in one
tenant's Bundle, such as ``(a+)+b``, would stop the operator for all tenants. RE2 doesn't, and its
syntax is that of Flux and other tools in Go: no back-references, no look-around.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

TAG_FILTER_LENGTH: Final = 256
"""Characters of ``spec.tagFilter``."""

TAG_FILTER_MEMORY: Final = 128 * 1024
"""Bytes that RE2 may use for a compiled filter and its matching."""

TAG_FILTER_STEPS: Final = 512
"""Instructions of a compiled filter. RE2's time per tag grows with them: ``(.?){500}z`` has 5,500
and takes 3.5 ms, a filter of 512 at most some 0.1 ms."""

TAG_FILTERS: Final = 128
"""Compiled filters that are cached."""


class FilterError(ValueError):
    """A pattern that can't be used; the text has the fault."""


class TagFilter:
    """A compiled filter; it matches a whole tag or nothing.

    Raises:
        FilterError: the pattern can't be used.
    """

    __slots__ = ("_pattern",)

    def __init__(self, pattern: str) -> None:
        if len(pattern) > TAG_FILTER_LENGTH:
            raise FilterError(f"must have at most {TAG_FILTER_LENGTH} characters")
        import re2  # noqa: PLC0415 - 2.6 MB, for Bundles with a filter

        options = re2.Options()
        options.log_errors = False
        options.max_mem = TAG_FILTER_MEMORY
        try:
            self._pattern = re2.compile(pattern, options)
        except (re2.error, UnicodeEncodeError) as error:
            raise FilterError(_error_text(error)) from None
        if self._pattern.programsize > TAG_FILTER_STEPS:
            raise FilterError(
                f"it takes too long to match ({self._pattern.programsize} steps, at most "
                f"{TAG_FILTER_STEPS}); use fewer and less deeply nested repetitions"
            )

    def matches(self, tag: str) -> bool:
        """Whether the filter matches the whole tag."""
        return self._pattern.fullmatch(tag) is not None


@lru_cache(maxsize=TAG_FILTERS)
def compile_filter(pattern: str) -> TagFilter:
    """Compile a pattern once, however many Bundles and polls use it.

    Raises:
        FilterError: the pattern can't be used.
    """
    return TagFilter(pattern)


def _error_text(error: Exception) -> str:
    """RE2's own message, which names the fault and the position; it is bytes."""
    said = error.args[0]
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(error)
