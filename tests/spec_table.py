"""The table of specs in tests/unit/api/specs: bad ones with one fault each, good ones on a bound.

`bases` are valid objects. A group has one of them, and by path (numbers are items of a list) the
values that stand there instead, each under a word for what it is; `under` is what the paths begin
with. Tags make what is long: `!times` repeats a text or list, `!each` and `!map` make lists and
maps with {} as the number, `!join` puts texts or lists together, `!nest` nests, `!absent` removes
the field.

What the parsers and the API server say is in golden files beside the table; `UPDATE_GOLDEN=1`
writes them anew.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import yaml

SPECS: Final = Path(__file__).parent / "unit" / "api" / "specs"
_ABSENT: Final = object()

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """An object of the table."""

    id: str
    base: str
    """ID of the valid object."""
    path: str
    """Of the field that was changed, such as ``spec.windows.0.from``; empty: none was."""
    is_good: bool
    body: Object


def read_cases() -> list[Case]:
    """All of both kinds, the valid objects first; each ID once."""
    return [case for path in sorted(SPECS.glob("*.yaml")) for case in _read(path)]


def _read(path: Path) -> Iterator[Case]:
    table = yaml.load(path.read_text(), _Loader)
    ids = {name: f"{body['kind']} {name}" for name, body in table["bases"].items()}
    for name, body in table["bases"].items():
        yield Case(ids[name], ids[name], "", True, _copy(body))
    for verdict in ("bad", "good"):
        for group in table[verdict]:
            name = group["base"]
            for field, values in group["values"].items():
                path_ = f"{group['under']}.{field}" if "under" in group else field
                for word, value in values.items():
                    body = _changed(table["bases"][name], path_, value)
                    yield Case(
                        f"{ids[name]}, {path_}: {word}", ids[name], path_, verdict == "good", body
                    )


def _changed(base: Object, path: str, value: Any) -> Object:
    made: Object = _copy(base)
    steps = [int(step) if step.isdecimal() else step for step in path.split(".")]
    here: Any = made
    for step, after in pairwise(steps):
        if isinstance(here, dict):
            here.setdefault(step, [None] if isinstance(after, int) else {})
        here = here[step]
    if value is _ABSENT:
        del here[steps[-1]]
    else:
        here[steps[-1]] = _copy(value)
    return made


def _copy(value: Any) -> Any:
    """Without parts that are shared, as in YAML, and with keys that are texts."""
    return json.loads(json.dumps(value))


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    pass


def _of_parts(make: Callable[..., Any]) -> Callable[[_Loader, yaml.SequenceNode], Any]:
    return lambda loader, node: make(*loader.construct_sequence(node, deep=True))


def _each(item: Any, count: int) -> list[Any]:
    return [_numbered(item, number) for number in range(count)]


def _map(key: str, value: Any, count: int) -> Object:
    return {_numbered(key, number): _numbered(value, number) for number in range(count)}


def _numbered(value: Any, number: int) -> Any:
    if isinstance(value, str):
        return value.replace("{}", str(number))
    if isinstance(value, dict):
        return {key: _numbered(item, number) for key, item in value.items()}
    return [_numbered(item, number) for item in value] if isinstance(value, list) else value


def _join(*parts: Any) -> Any:
    return "".join(parts) if isinstance(parts[0], str) else [one for part in parts for one in part]


def _nest(depth: int, kind: str) -> Any:
    value: Any = "deep"
    for _ in range(depth):
        value = [value] if kind == "list" else {"a": value}
    return value


for _tag, _make in {
    "!times": lambda value, count: value * count,
    "!each": _each,
    "!map": _map,
    "!join": _join,
    "!nest": _nest,
}.items():
    _Loader.add_constructor(_tag, _of_parts(_make))
_Loader.add_constructor("!absent", lambda _loader, _node: _ABSENT)


def check_golden(found: Mapping[str, Any], name: str, others: str = "") -> None:
    """Compare what was found, by ID, with a golden file; each difference fails the test.

    `others` names a second file, which has only what differs from the first.
    """
    golden = _golden(name)
    if os.environ.get("UPDATE_GOLDEN"):
        new = {id_: said for id_, said in found.items() if not others or golden.get(id_) != said}
        lines = (
            f"{json.dumps(id_)}: {json.dumps(said, ensure_ascii=False)}"
            for id_, said in new.items()
        )
        _file(others or name).write_text("{\n" + ",\n".join(lines) + "\n}\n")
    golden = _golden(name) | (_golden(others) if others else {})
    changes = [
        f"{id_}\n  golden: {golden.get(id_)}\n  found:  {found.get(id_)}"
        for id_ in sorted(golden.keys() | found.keys())
        if golden.get(id_) != found.get(id_)
    ]
    assert not changes, f"{len(changes)} of {len(found)} changed:\n" + "\n".join(changes)


def _golden(name: str) -> Object:
    found: Object = json.loads(_file(name).read_text()) if _file(name).exists() else {}
    return found


def _file(name: str) -> Path:
    return SPECS / f"{name}.json"
