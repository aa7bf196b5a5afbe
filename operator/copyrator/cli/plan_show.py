"""Prints the plans of rules."""

from __future__ import annotations

from collections.abc import Sequence

import click

from copyrator.cli.output import Format, Table, console, dump, prose
from copyrator.cli.plan_rows import API_VERSION, COLUMNS, RulePlan, merged, summary


def show(results: Sequence[RulePlan], shape: Format) -> None:
    """Print all plans in the chosen shape; faults are left to the caller, but for programs."""
    if shape in (Format.JSON, Format.YAML):
        items = [result.to_dict() for result in results]
        dump({"apiVersion": API_VERSION, "kind": "PlanList", "items": items}, shape)
        return
    for result in results:
        if result.fault:
            continue
        if shape is Format.NAME:
            for row in result.rows:
                click.echo(row.reference)
            continue
        if len(results) > 1:
            console().print(f"rule {result.rule}")
        if result.rows:
            wide = shape is Format.WIDE
            rows = result.rows if wide else merged(result.rows)
            Table(COLUMNS, wide=wide, whole=True).print(rows)
        prose([summary(result.rows, result.right), *result.notes])
