"""`copyrator history`: the last deploys of a Bundle."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from copyrator.api.bundle_status import HistoryEntry, Outcome
from copyrator.cli.core.cluster import Target, cluster_options, run
from copyrator.cli.core.objects import object_arguments, one
from copyrator.cli.core.output import (
    Column,
    Format,
    Kind,
    Table,
    dump,
    output_option,
    prose,
    said,
    typed,
)
from copyrator.cli.view import rows
from copyrator.cli.view.bundle import BundleView, passed_over


@click.command()
@object_arguments("bundles")
@cluster_options()
@output_option
def history(target: Target, what: str, name: str, shape: Format) -> None:
    """Show the last ten attempts of a Bundle, newest first."""
    run(_history(target, what, name, shape))


async def _history(target: Target, what: str, name: str, shape: Format) -> None:
    async with target.connect() as client:
        namespace, name = target.locate(name)
        body = await one(client, what, namespace, name)
    view = BundleView(body, datetime.now(UTC))
    entries = view.status.past
    match shape:
        case Format.JSON | Format.YAML:
            items = (body.get("status") or {}).get("history") or []
            dump(typed(Kind.ATTEMPT_LIST, {"items": items}), shape)
        case Format.NAME:
            for entry in entries:
                click.echo(f"job.batch/{entry.job}")
        case _ if not entries:
            click.echo(f"bundle {namespace}/{name} hasn't been deployed yet.", err=True)
        case _:
            Table(history_columns(view), wide=shape is Format.WIDE).print(entries)
            prose(["", *lines] if (lines := last_failure(view)) else ())


def last_failure(view: BundleView) -> list[str]:
    """Why the newest attempt failed, or was interrupted: the status has only that message."""
    attempt, newest = view.status.attempted, view.status.past[0]
    if newest.outcome == Outcome.SUCCEEDED or attempt.job != newest.job or not attempt.message:
        return []
    return [f"{said(newest.version)}: {said(attempt.message, 2048)}"]


def _note(entry: HistoryEntry) -> str:
    """Whether it corrected drift, and the gates that a forced deploy or rollback passed over."""
    over = passed_over(entry.passed_over)
    parts = (
        "correction of drift" if entry.correction else "",
        f"passed over {over}" if over else "",
    )
    return said("; ".join(filter(None, parts))) if any(parts) else ""


def history_columns(view: BundleView) -> list[Column]:
    """The columns; who approved only where somebody did, and notes where there are any."""
    approved = any(entry.approved_by for entry in view.status.past)
    noted = any(map(_note, view.status.past))
    return [
        Column("WHEN", lambda entry: rows.age(entry.time, view.now)),
        Column("VERSION", lambda entry: said(entry.version)),
        Column("DIGEST", lambda entry: rows.digest(entry.digest), spare=1),
        Column("REVISION", lambda entry: said(entry.revision), spare=2),
        Column("OUTCOME", lambda entry: said(entry.outcome)),
        Column("APPROVED BY", lambda entry: said(entry.approved_by), wide=not approved),
        Column("PLAN", lambda entry: said(entry.plan), wide=True),
        Column("JOB", lambda entry: said(entry.job), wide=True),
        Column("REASON", lambda entry: said(entry.reason), spare=3),
        Column("NOTE", _note, wide=not noted, below=True),
    ]
