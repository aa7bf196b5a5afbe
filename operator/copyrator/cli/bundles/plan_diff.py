"""werf's diff of a plan: without what is in every plan, and split by object. Pure.

`fold` leaves out what is in every plan: werf adds its version and the project's name to each
object, and shows the managedFields of what it deletes (docs/facts/werf-output, plan-*-whole.txt). A
chart can't hide anything else that way: of an object that is shown whole, these lines count only in
their place of its metadata; of an update, which has no places, only the version of the very werf
that made the plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9._-]+")
"""A field of a Secret; YAML writes a key of over 128 characters on a line of its own."""
_FETCH: Final = re.compile(r'(Pulling|Exporting) bundle ".{1,600}"')
"""Frames of werf about the bundle itself, which stand before its plan."""


def fold(diff: str) -> tuple[str, int]:
    """The diff without what is always there, and how many lines were left out."""
    lines = diff.split("\n")
    version = next((found[1] for one in lines if (found := _VERSION.fullmatch(one))), None)
    kept: list[str] = []
    number, at, has_begun = 0, 0, False
    while at < len(lines):
        if not has_begun and (end := _end_of_fetch(lines, at)) is not None:
            number += end + 1 - at
            at = end + 1
            continue
        has_begun = has_begun or lines[at].startswith(_BEGIN)
        end = _end_of_block(lines, at)
        if end is None:
            kept.append(lines[at])
            at += 1
            continue
        content = lines[at + 1 : end]
        left = list(_fold_content(content, version))
        number += len(content) - len(left)
        kept += [lines[at], *left, lines[end]]
        at = end + 1
    return "\n".join(kept), number


def _end_of_fetch(lines: Sequence[str], begin: int) -> int | None:
    """The last line, with the empty ones after it, of werf's frame about the bundle's download."""
    title = lines[begin].removeprefix(_BEGIN)
    if not (lines[begin].startswith(_BEGIN) and _FETCH.fullmatch(title)):
        return None
    for at in range(begin + 1, len(lines)):
        if lines[at].startswith(f"{_END}{title} (") and lines[at].endswith(" seconds)"):
            rest = range(at + 1, len(lines))
            return next((one for one in rest if lines[one]), len(lines)) - 1
        if lines[at].startswith((_BEGIN, _BAR)):
            return None  # not of the bundle's download: it is shown
    return None


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


def _fold_content(content: Sequence[str], version: str | None) -> Iterator[str]:
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


_HIDDEN: Final = "<hidden"
"""How werf begins what stands in place of contents."""
_IN_CLEAR: Final = ("apiVersion", "immutable", "kind", "type")
"""Fields of a Secret."""


@dataclass(frozen=True, slots=True)
class ObjectDiff:
    """What werf shows of one object."""

    title: str
    """``Update ConfigMap/a (namespace=b), then …``; a namespace only where it isn't the release's,
    and no API group: two objects may have equal titles."""
    lines: tuple[str, ...]
    """Each begins with ``+ ``, ``- `` or two spaces; or it says what isn't shown, and why."""

    @property
    def kind(self) -> str:
        """The object's."""
        return self.title.partition("/")[0].rpartition(" ")[2]

    @property
    def added(self) -> int:
        """How many lines are added."""
        return sum(sign_of(line) == "+" for line in self.lines)

    @property
    def removed(self) -> int:
        """How many lines are removed."""
        return sum(sign_of(line) == "-" for line in self.lines)

    @property
    def is_hidden(self) -> bool:
        """Whether contents of it aren't shown."""
        return any(
            line.startswith(_HIDDEN) or line[2:].lstrip().partition(": ")[2].startswith(_HIDDEN)
            for line in self.lines
        )

    def without_values(self) -> ObjectDiff:
        """Of a Secret, without values: a chart can make werf print them (docs/facts/werf.md)."""
        if self.kind != "Secret":
            return self
        name = self.title.partition("/")[2].split(" (", 1)[0].split(",", 1)[0]
        return replace(self, lines=tuple(_without_value(line, name) for line in self.lines))


def sign_of(line: str) -> str:
    """``+`` of an added line of an object, ``-`` of a removed one; else empty."""
    return line[0] if line[:2] in ("+ ", "- ", "+", "-") else ""


def _without_value(line: str, name: str) -> str:
    if line.startswith(_HIDDEN):
        return line
    sign, text = line[:2], line[2:]
    found = _KEY.fullmatch(text)
    indent, key, value = found.groups() if found else ("", "", "")
    if not _PLAIN_KEY.fullmatch(key):
        found = None
    value = (value or "").strip()
    is_kept = not value or (key == "name" and value == name)
    if found and not indent and (is_kept or key in _IN_CLEAR):
        return line
    if found and len(indent) == 2:
        return line if is_kept else f"{sign}{indent}{key}: <hidden>"
    return f"{sign}{' ' * (len(text) - len(text.lstrip()))}<hidden>" if text.strip() else line


def split(diff: str) -> tuple[list[ObjectDiff], list[str]]:
    """The objects of a diff, and the lines that are of none; an object may be cut at the end.

    Where another line stands among those of a Secret, the rest of these are without values, too.
    """
    objects: list[ObjectDiff] = []
    others: list[str] = []
    lines, at, in_secret = diff.split("\n"), 0, False
    while at < len(lines):
        line = lines[at]
        end = at + 1
        while end < len(lines) and lines[end].startswith(_BAR):
            end += 1
        is_closed = end < len(lines) and lines[end] == _END + line.removeprefix(_BEGIN)
        if line.startswith(_BEGIN):
            content = (one.removeprefix(_BAR).removeprefix(" ") for one in lines[at + 1 : end])
            found = ObjectDiff(line.removeprefix(_BEGIN), tuple(content))
            in_secret = found.kind == "Secret" and not is_closed
            if is_closed or found.lines:
                objects.append(found)
                at = end + is_closed
                continue
        in_secret = in_secret and not line.startswith(_END)
        others.append(f"{_BAR} <hidden>" if in_secret and line.startswith(_BAR) else line)
        at += 1
    return objects, others
