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


def _outcome(entry: HistoryEntry) -> str:
    """``Succeeded``; of a correction of drift ``Succeeded (correction)``.

    A forced deploy or rollback has the gates that it passed over.
    """
    text = f"{said(entry.outcome)} (correction)" if entry.correction else said(entry.outcome)
    over = passed_over(entry.passed_over)
    return f"{text} (passed over {said(over)})" if over else text


def history_columns(view: BundleView) -> list[Column]:
    """The columns; who approved only where somebody did."""
    approved = any(entry.approved_by for entry in view.status.past)
    return [
        Column("WHEN", lambda entry: rows.age(entry.time, view.now)),
        Column("VERSION", lambda entry: said(entry.version)),
        Column("DIGEST", lambda entry: rows.digest(entry.digest)),
        Column("REVISION", lambda entry: said(entry.revision)),
        Column("OUTCOME", _outcome),
        Column("APPROVED BY", lambda entry: said(entry.approved_by), wide=not approved),
        Column("PLAN", lambda entry: said(entry.plan), wide=True),
        Column("JOB", lambda entry: said(entry.job), wide=True),
        Column("REASON", lambda entry: said(entry.reason)),
    ]
