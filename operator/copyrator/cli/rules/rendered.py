"""The object that a rule would write, and its difference to the existing one. Pure.

Of Secrets only the lengths of values are shown, and whether they differ; also of annotations, as
several tools keep the whole object in one.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Any, Final

import yaml

from copyrator.api import names
from copyrator.api.text import count
from copyrator.cli.core.objects import Body

COMPARED: Final = 5000
"""Lines between the first and the last change up to which they are compared; of more all count as
changed."""

_SERVER_FIELDS: Final = frozenset(
    ("creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid")
)
"""Fields of metadata that only the API server writes."""
_IN_CLEAR: Final = frozenset(("apiVersion", "kind", "immutable", "metadata", "type"))
"""Fields of a Secret whose values aren't secret, metadata.annotations apart."""


def compare(live: Body | None, wanted: Body | None) -> tuple[dict[str, Any] | None, list[str]]:
    """The wanted object as it may be shown, and the lines of its difference to the live one.

    Each line begins with ``+ ``, ``- `` or two spaces. None: there is no such object.
    """
    before, after = _shown(live, wanted, "before"), _shown(wanted, live, "after")
    return after, list(_difference(_lines(before), _lines(after)))


def _shown(body: Body | None, other: Body | None, when: str) -> dict[str, Any] | None:
    """What is shown of an object; ``when`` marks hidden values that differ in the other one."""
    if body is None:
        return None
    is_secret = body.get("kind") == "Secret"
    found: dict[str, Any] = {}
    for field, value in body.items():
        theirs = (other or {}).get(field)
        if field == "metadata":
            found[field] = _metadata(value, theirs, when, is_secret=is_secret)
        elif isinstance(value, Mapping) and (
            field == "binaryData" or (is_secret and field == "data")
        ):  # of other groups' kinds they may be anything
            found[field] = _hidden(value, theirs, when, _decoded_size, secret=is_secret)
        elif is_secret and field not in _IN_CLEAR:
            found |= _hidden({field: value}, other, when, _text_size)
        elif field != "status":
            found[field] = value
    return found


def _metadata(metadata: Body, other: Any, when: str, *, is_secret: bool) -> dict[str, Any]:
    found = {key: value for key, value in metadata.items() if key not in _SERVER_FIELDS}
    annotations = {
        key: value
        for key, value in (found.pop("annotations", None) or {}).items()
        if key != names.ANN_HASH and not key.startswith("kubectl.kubernetes.io/")
    }
    if is_secret:
        ours = {key for key in annotations if key.startswith(names.RULE_PREFIX)}
        theirs = (other or {}).get("annotations")
        hidden = _hidden(annotations, theirs, when, _text_size)
        annotations = {key: (annotations if key in ours else hidden)[key] for key in annotations}
    return found | ({"annotations": annotations} if annotations else {})


def _hidden(
    values: Any, others: Any, when: str, size: Callable[[Any], int], *, secret: bool = True
) -> dict[str, str]:
    """The lengths of values in their place."""
    found, compared = {}, others if isinstance(others, Mapping) else {}
    for key, value in (values or {}).items():
        differs = value != compared.get(key, value)
        mark = f", {when}" if differs else ""
        word = "hidden" if secret else "binary"
        found[key] = f"<{word}, {count(size(value), 'byte')}{mark}>"
    return found


def _decoded_size(value: Any) -> int:
    try:
        return len(base64.b64decode(str(value), validate=True))
    except (ValueError, binascii.Error):
        return _text_size(value)


def _text_size(value: Any) -> int:
    return len(str(value).encode("utf-8", "surrogatepass"))


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as such, so that they are compared by line; no anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - of the base class
        return True


def _represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent)


def _lines(body: Body | None) -> list[str]:
    """In YAML."""
    if body is None:
        return []
    try:
        text: str = yaml.dump(body, Dumper=_Dumper, allow_unicode=True, width=float("inf"))
    except RecursionError:
        text = "<nested too deeply to be shown>"
    return text.rstrip("\n").split("\n")


def _difference(before: list[str], after: list[str]) -> Iterator[str]:
    start = _same(before, after)
    end = _same(before[start:][::-1], after[start:][::-1])
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    yield from (f"  {line}" for line in before[:start])
    blocks: Sequence[tuple[int, int, int]] = [(len(old), len(new), 0)]
    if max(len(old), len(new)) <= COMPARED:
        blocks = SequenceMatcher(None, old, new).get_matching_blocks()
    was, now = 0, 0
    for first, new_first, size in blocks:
        yield from (f"- {line}" for line in old[was:first])
        yield from (f"+ {line}" for line in new[now:new_first])
        was, now = first + size, new_first + size
        yield from (f"  {line}" for line in old[first:was])
    yield from (f"  {line}" for line in before[len(before) - end :])


def _same(lines: Sequence[str], others: Sequence[str]) -> int:
    """With how many lines both begin alike."""
    pairs = zip(lines, others, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
