"""`copyrator history`: the last deploys of a Bundle."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import click

from copyrator.api.bundle_status import Outcome
from copyrator.cli.core.cluster import Target, cluster_options, run
from copyrator.cli.core.objects import What, complete_names, one
from copyrator.cli.core.output import Column, Format, Table, dump, output_option, prose
from copyrator.cli.view import rows
from copyrator.cli.view.bundle import said


@click.command()
@click.argument("what", type=What("bundles"))
@click.argument("name", metavar="[NAMESPACE/]NAME", shell_complete=complete_names)
@cluster_options()
@output_option
def history(target: Target, what: str, name: str, shape: Format) -> None:
    """Show the last ten attempts of a Bundle, newest first."""
    run(_history(target, what, name, shape))


async def _history(target: Target, what: str, name: str, shape: Format) -> None:
    async with target.connect() as client:
        namespace, name = target.locate(name)
        body = await one(client, what, namespace, name)
    entries: list[dict[str, Any]] = (body.get("status") or {}).get("history") or []
    match shape:
        case Format.JSON | Format.YAML:
            dump(entries, shape)
        case Format.NAME:
            for entry in entries:
                click.echo(f"job.batch/{entry.get('job')}")
        case _ if not entries:
            click.echo(f"bundle {namespace}/{name} hasn't been deployed yet.", err=True)
        case _:
            approved = any(entry.get("approvedBy") for entry in entries)
            columns = _columns(datetime.now(UTC), approved=approved)
            Table(columns, wide=shape is Format.WIDE).print(entries)
            prose(["", *lines] if (lines := last_failure(body, entries[0])) else ())


def last_failure(body: Mapping[str, Any], entry: Mapping[str, Any]) -> list[str]:
    """Why the newest attempt failed, or was interrupted: the status has only that message."""
    attempted = body["status"].get("attempted") or {}
    if entry.get("outcome") == Outcome.SUCCEEDED or attempted.get("job") != entry.get("job"):
        return []
    version, message = said(entry.get("version")), said(attempted.get("message"), 2048)
    return [f"{version}: {message}"] if attempted.get("message") else []


def _outcome(entry: Mapping[str, Any]) -> str:
    """``Succeeded``; of a correction of drift ``Succeeded (correction)``.

    A forced deploy has the gates that it skipped.
    """
    text = said(entry.get("outcome"))
    if entry.get("correction") is True:
        text += " (correction)"
    if over := rows.passed_over(entry):
        text += f" (forced past {said(over)})"
    return text


def _columns(now: datetime, *, approved: bool) -> list[Column]:
    """The columns; who approved only where somebody did."""

    def text(name: str) -> Any:
        def value(entry: Mapping[str, Any]) -> str:
            return said(entry.get(name))

        return value

    return [
        Column("WHEN", lambda entry: rows.age(entry.get("time"), now)),
        Column("VERSION", text("version")),
        Column("DIGEST", lambda entry: rows.digest(entry.get("digest"))),
        Column("REVISION", text("revision")),
        Column("OUTCOME", _outcome),
        Column("APPROVED BY", text("approvedBy"), wide=not approved),
        Column("PLAN", text("plan"), wide=True),
        Column("JOB", text("job"), wide=True),
        Column("REASON", text("reason")),
    ]
