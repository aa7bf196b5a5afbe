"""Leaves out of werf's diff what is in every plan, so that a person reads the rest. Pure.

werf adds its version and the project's name to each object, and shows the managedFields of what it
deletes (docs/facts/werf-output, plan-*-whole.txt). A chart can't hide anything else that way: of an
object that is shown whole, these lines count only in their place of its metadata; of an update,
which has no places, only the version of the very werf that made the plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

_BEGIN: Final = "┌ "
_END: Final = "└ "
_BAR: Final = "│"
_VERSION: Final = re.compile(r"Version: (v[0-9][0-9A-Za-z.+-]{0,30})")
"""How werf's output begins."""
_ALWAYS: Final = re.compile(
    r"    (werf\.io/version: v[0-9][0-9A-Za-z.+-]{0,30}"
    r'|project\.werf\.io/(env|name): ("[A-Za-z0-9._-]{0,63}"|[A-Za-z0-9._-]{1,63}))'
)
"""Annotations of each object, in its metadata."""
_UPDATED: Final = "    werf.io/version: "
_MANAGED: Final = "  managedFields:"
_KEY: Final = re.compile(r"( *)([^\s].*?):(\s.*)?")


def fold(diff: str) -> tuple[str, int]:
    """The diff without what is always there, and how many lines were left out."""
    lines = diff.split("\n")
    version = next((found[1] for one in lines if (found := _VERSION.fullmatch(one))), None)
    kept: list[str] = []
    number, at = 0, 0
    while at < len(lines):
        end = _end_of_block(lines, at)
        if end is None:
            kept.append(lines[at])
            at += 1
            continue
        content = lines[at + 1 : end]
        left = list(_folded(content, version))
        number += len(content) - len(left)
        kept += [lines[at], *left, lines[end]]
        at = end + 1
    return "\n".join(kept), number


def _end_of_block(lines: Sequence[str], begin: int) -> int | None:
    """The last line of the block that begins here; None where none does, or it isn't whole."""
    if not lines[begin].startswith(_BEGIN):
        return None
    last = _END + lines[begin].removeprefix(_BEGIN)
    for at in range(begin + 1, len(lines)):
        if lines[at] == last:
            return at
        if not lines[at].startswith(_BAR):
            return None
    return None


def _folded(content: Sequence[str], version: str | None) -> Iterator[str]:
    """The lines of a block that are kept."""
    signs = {line[2:3] for line in content}
    if signs in ({"+"}, {"-"}):
        return _whole(content)
    return _update(content, version)


def _whole(content: Sequence[str]) -> Iterator[str]:
    """Of an object that is shown whole: without werf's annotations and managedFields."""
    top = second = ""
    for line in content:
        text = line[4:]
        found = _KEY.fullmatch(text)
        if not text.startswith(" "):
            top, second = (found[2] if found else text), ""
        elif found and len(found[1]) == 2 and not found[2].startswith("- "):
            second = found[2]
        if top == "metadata" and (
            (second == "annotations" and _ALWAYS.fullmatch(text))
            or (second == "managedFields" and _is_managed(text))
        ):
            continue
        yield line


def _is_managed(text: str) -> bool:
    return text == _MANAGED or text.startswith(("  - ", "    "))


def _update(content: Sequence[str], version: str | None) -> Iterator[str]:
    """Of an update: without the change of werf's version, if that is the one that plans."""
    now = f"+ {_UPDATED}{version}"
    kept: list[str] = []
    for line in content:
        text = line[2:]
        if version is not None and text == now and kept and _is_version(kept[-1][2:]):
            kept.pop()
            continue
        kept.append(line)
    if len(kept) < len(content) and not any(line[2:3] in ("+", "-") for line in kept):
        return iter(())  # nothing else changed, so what stood around it is no news
    return iter(kept)


def _is_version(text: str) -> bool:
    return text.startswith(f"- {_UPDATED}") and bool(_ALWAYS.fullmatch(text[2:]))
