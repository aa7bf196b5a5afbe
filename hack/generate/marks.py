"""The table of labels and annotations that are never copied, from copies/targets/marks.py."""

from __future__ import annotations

from copyrator.copies.targets.marks import OPERATORS, OTHERS, Owner
from demo.chart import ROOT
from generate.cells import NOTE, cell

_HEAD = f"""# Marks that aren't copied

{NOTE}
A rule never copies these labels and annotations from a source: by them a controller claims, prunes
or fills an object, so it would delete the copy, overwrite it or copy it further. `DOMAIN/*` are all
keys of a domain, and of its subdomains. A source's owner references and finalizers aren't copied
either.

The author of a rule may set a mark on the copies nonetheless, with `spec.transform` (`labels.add`,
`annotations.add`) or in `spec.template`. Only the first three lines can't be set in a template.

| marks | of | what it does |
|---|---|---|
"""


def _document() -> str:
    return _HEAD + "".join(_row(owner) for owner in (*OPERATORS, *OTHERS))


def _row(owner: Owner) -> str:
    marks = [f"{one}*" if one.endswith("/") else one for one in owner.patterns]
    if owner.name == "kopf":
        marks.append("*/last-handled-configuration")
    listed = ", ".join(f"`{one}`" for one in marks)
    return f"| {listed} | {cell(owner.name)} | {cell(owner.effect)} |\n"


FILES = {ROOT / "docs" / "reference" / "marks.md": _document}
