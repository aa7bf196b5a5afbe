"""The table of limits, from the constants of copyrator/settings/limits.py and their docstrings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

from copyrator.settings import limits
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

_SECTION = re.compile(r"# --- (.+?) -+$")
_UNITS = ((2**20, "MiB"), (2**10, "KiB"))


@dataclass(frozen=True, slots=True)
class Limit:
    """One constant.

    Attributes:
        section: the heading above it.
        name: as in the module.
        meaning: its docstring on one line: unit and reason.
    """

    section: str
    name: str
    meaning: str


def read(source: str) -> Iterator[Limit]:
    """The limits of a module's source, in its order.

    Raises:
        ValueError: one has no docstring, or stands above the first heading.
    """
    headings = {
        number: found[1]
        for number, line in enumerate(source.splitlines(), 1)
        if (found := _SECTION.fullmatch(line))
    }
    body = ast.parse(source).body
    for statement, following in zip(body, [*body[1:], None], strict=True):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        name = statement.target.id
        above = [line for line in headings if line < statement.lineno]
        if not above:
            raise ValueError(f"limits.py: {name} stands above the first '# --- section ---'")
        match following:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield Limit(headings[max(above)], name, " ".join(text.split()))
            case _:
                raise ValueError(f"limits.py: {name} has no docstring below it")


def document(module: ModuleType, source: str) -> str:
    """The page: a table for each section that has limits."""
    parts, section = [_HEAD], ""
    for limit in read(source):
        if limit.section != section:
            section = limit.section
            heading = section[0].upper() + section[1:]
            parts.append(
                f"\n## {heading}\n\n| limit | value | what it is, and why |\n|---|---|---|\n"
            )
        value = shown(getattr(module, limit.name), limit.meaning)
        parts.append(f"| `{limit.name}` | {value} | {cell(limit.meaning)} |\n")
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
    path = ROOT / "operator" / "copyrator" / "settings" / "limits.py"
    return document(limits, path.read_text())


FILES = {ROOT / "docs" / "reference" / "limits.md": _limits}
