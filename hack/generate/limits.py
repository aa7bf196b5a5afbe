"""The table of limits: all constants marked by ``# limit: TOPIC``, and their docstrings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

from demo.chart import ROOT
from generate.cells import NOTE, cell

_HEAD = f"""# Limits

{NOTE}
The limits on everything that the author of a rule or Bundle, a registry or a caller of the webhook
may send. Anything over a limit is rejected before it is processed, and the object's status names
the field and the remedy; other objects aren't affected. The limits aren't settings.
[Security](../security.md#what-one-tenant-can-cost) describes what a tenant can do within them, and
what others notice of it.
"""

TOPICS = (
    "one step of work",
    "objects as the API server has them",
    "rules",
    "templates",
    "copies, sources, consent",
    "fairness between namespaces",
    "other clusters",
    "Bundles",
    "registries",
    "signatures",
    "charts of bundles",
    "webhook",
    "notifications",
)
"""The page's sections, in their order."""

_OPERATOR = ROOT / "operator"
_SHARED = _OPERATOR / "copyrator" / "settings" / "limits.py"
_MARK = re.compile(r"  # limit: (.+)$", re.MULTILINE)
_UNITS = ((2**20, "MiB"), (2**10, "KiB"))


@dataclass(frozen=True, slots=True)
class Limit:
    """One constant.

    Attributes:
        topic: one of TOPICS.
        name: as in the module.
        meaning: its docstring on one line: unit and reason.
    """

    topic: str
    name: str
    meaning: str


def read(source: str) -> Iterator[Limit]:
    """The limits of a module's source, in its order.

    Raises:
        ValueError: one has no docstring, or a topic that isn't in TOPICS, or isn't a constant.
    """
    marks = {
        number: found[1]
        for number, line in enumerate(source.splitlines(), 1)
        if (found := _MARK.search(line))
    }
    body = ast.parse(source).body
    for statement, following in zip(body, [*body[1:], None], strict=True):
        topic = marks.pop(statement.end_lineno or 0, None)
        if topic is None:
            continue
        if topic not in TOPICS:
            raise ValueError(f"there is no topic {topic!r} in hack/generate/limits.py")
        match statement, following:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield Limit(topic, name, " ".join(text.split()))
            case _:
                raise ValueError(f"{ast.unparse(statement)} has no docstring below it")
    for number in marks:
        raise ValueError(f"line {number} isn't a constant, and is marked as a limit")


def document(modules: Iterable[tuple[str, ModuleType]]) -> str:
    """The page of all modules and their sources: a table for each topic that has limits."""
    found: dict[str, tuple[Limit, str]] = {}
    for source, module in modules:
        for limit in read(source):
            if limit.name in found:
                raise ValueError(f"there are two limits {limit.name}")
            found[limit.name] = limit, shown(getattr(module, limit.name), limit.meaning)
    parts = [_HEAD]
    for topic in TOPICS:
        rows = [
            f"| `{limit.name}` | {value} | {cell(limit.meaning)} |\n"
            for limit, value in found.values()
            if limit.topic == topic
        ]
        if rows:
            heading = topic[0].upper() + topic[1:]
            parts.append(
                f"\n## {heading}\n\n| limit | value | what it is, and why |\n|---|---|---|\n"
            )
            parts += rows
    return "".join(parts)


def shown(value: object, meaning: str) -> str:
    """A limit's value; bytes in MiB or KiB where that is a whole number of them."""
    if isinstance(value, int):
        for size, unit in _UNITS:
            if meaning.startswith("Bytes") and value % size == 0:
                return f"{value // size:,} {unit}"
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.15g}"
    return cell(f"{value}")


def _limits() -> str:
    paths = sorted(_OPERATOR.rglob("*.py"), key=lambda path: (path != _SHARED, path))
    return document(
        (source, import_module(".".join(path.relative_to(_OPERATOR).with_suffix("").parts)))
        for path in paths
        if _MARK.search(source := path.read_text())
    )


FILES = {ROOT / "docs" / "reference" / "limits.md": _limits}
