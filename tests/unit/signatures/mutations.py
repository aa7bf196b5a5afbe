"""Strategies that alter a JSON text: bytes, values, members, nesting."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

HOSTILE: list[Any] = [
    None, True, 0, -1, 2**64, 10**400, 1.5, "", "AA==", "\x00", "\ud800", [], {}, [[]], [None],
]  # fmt: skip


def altered_bytes(raw: bytes) -> st.SearchStrategy[bytes]:
    """Some bits flipped, a part cut out, doubled, or replaced by noise."""
    at = st.integers(0, len(raw) - 1)
    flipped = st.builds(
        _flip, st.just(raw), st.lists(st.tuples(at, st.integers(1, 255)), min_size=1)
    )
    replaced = st.builds(
        lambda start, length, noise: raw[:start] + noise + raw[start + length :],
        at, st.integers(0, 40), st.binary(max_size=40),
    )  # fmt: skip
    return flipped | replaced


def altered_json(raw: bytes) -> st.SearchStrategy[bytes]:
    """One value replaced, removed, nested, or a member given twice."""
    document = json.loads(raw)
    paths = list(_paths(document))
    return st.builds(
        lambda path, how, value: _alter(document, path, how, value),
        st.sampled_from(paths),
        st.sampled_from(["replace", "remove", "nest", "twice first", "twice last"]),
        st.sampled_from(HOSTILE) | st.text(max_size=8) | st.integers(),
    )


def _flip(raw: bytes, changes: list[tuple[int, int]]) -> bytes:
    altered = bytearray(raw)
    for at, mask in changes:
        altered[at] ^= mask
    return bytes(altered)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    members: Any = ()
    if isinstance(value, dict):
        members = value.items()
    elif isinstance(value, list):
        members = enumerate(value)
    for name, each in members:
        yield (*path, name)
        yield from _paths(each, (*path, name))


def _alter(document: Any, path: tuple[Any, ...], how: str, value: Any) -> bytes:
    root = copy.deepcopy(document)
    parent = root
    for name in path[:-1]:
        parent = parent[name]
    last = path[-1]
    if how == "remove":
        del parent[last]
        return json.dumps(root).encode()
    if how.startswith("twice") and isinstance(parent, dict):
        marker = "a member that is nowhere else"
        members = [(last, parent[last]), (last, value)]
        parent[last] = marker
        first, second = members if how == "twice last" else reversed(members)
        once = f"{json.dumps(last)}: {json.dumps(marker)}"
        twice = ", ".join(f"{json.dumps(n)}: {json.dumps(v)}" for n, v in (first, second))
        return json.dumps(root).replace(once, twice).encode()
    parent[last] = [[parent[last]]] if how == "nest" else value
    return json.dumps(root).encode()
