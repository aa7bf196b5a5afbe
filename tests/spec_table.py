"""The tables of specs: bad ones with one fault each, good ones on a bound.

They are in tests/unit/api/specs, and of a feature's fields in `specs` of its folder in
tests/unit/bundles/features. What several have is in faults.yaml, with which each begins.

`bases` are valid objects. A group has one of them, and by path (numbers are items of a list) the
values that stand there instead, each under a word for what it is; `under` is what the paths begin
with. Tags make what is long: `!times` repeats a text or list, `!each` and `!map` make lists and
maps with {} as the number, `!join` puts texts or lists together, `!nest` nests, `!absent` removes
the field.

What the parsers and the API server say is in golden files beside each table; `UPDATE_GOLDEN=1`
writes them anew.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import yaml

_UNIT: Final = Path(__file__).parent / "unit"
_SPECS: Final = _UNIT / "api" / "specs"
_FAULTS: Final = _SPECS / "faults.yaml"
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
    folder: Path
    """Where it is, and where the golden files with it are."""


def read_cases() -> list[Case]:
    """All of both kinds; each ID once."""
    rules, bundles = _load(_SPECS / "rules.yaml"), _load(_SPECS / "bundles.yaml")
    cases = [*_read(_SPECS, rules, rules["bases"]), *_read(_SPECS, bundles, bundles["bases"])]
    for path in sorted(_UNIT.glob("bundles/features/*/specs/bundles.yaml")):
        cases += _read(path.parent, _load(path), bundles["bases"])
    return cases


def _load(path: Path) -> Object:
    table: Object = yaml.load(_FAULTS.read_text() + path.read_text(), _Loader)
    return table


def _read(folder: Path, table: Object, bases: Object) -> Iterator[Case]:
    """The valid objects of a table, then those that are made of `bases`."""
    ids = {name: f"{body['kind']} {name}" for name, body in bases.items()}
    for name, body in table.get("bases", {}).items():
        yield Case(ids[name], ids[name], "", True, _copy(body), folder)
    for verdict in ("bad", "good"):
        for group in table.get(verdict, ()):
            name = group["base"]
            for field, values in group["values"].items():
                path = f"{group['under']}.{field}" if "under" in group else field
                for word, value in values.items():
                    id_, body = f"{ids[name]}, {path}: {word}", _changed(bases[name], path, value)
                    yield Case(id_, ids[name], path, verdict == "good", body, folder)


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


def golden(cases: Sequence[Case], name: str) -> dict[str, Any]:
    """What the golden files of this name say of cases, by ID."""
    folders = {case.folder for case in cases}
    return {
        id_: said
        for folder in sorted(folders)
        for id_, said in json.loads((folder / f"{name}.json").read_text()).items()
    }


def check_golden(cases: Sequence[Case], found: Mapping[str, Any], name: str) -> None:
    """Compare what was found, by ID, with golden files; each difference fails the test."""
    if os.environ.get("UPDATE_GOLDEN"):
        for folder in {case.folder for case in cases}:
            lines = (
                f"{json.dumps(case.id)}: {json.dumps(found[case.id], ensure_ascii=False)}"
                for case in cases
                if case.folder == folder and case.id in found
            )
            (folder / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    known = golden(cases, name)
    changes = [
        f"{id_}\n  golden: {known.get(id_)}\n  found:  {found.get(id_)}"
        for id_ in sorted(known.keys() | found.keys())
        if known.get(id_) != found.get(id_)
    ]
    assert not changes, f"{len(changes)} of {len(found)} changed:\n" + "\n".join(changes)
