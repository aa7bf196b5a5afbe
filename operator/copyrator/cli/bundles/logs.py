"""`copyrator logs` and `history`: a Bundle's last deploys, and the log of the newest Job."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from copyrator.api import names
from copyrator.api.bundle_status import HistoryEntry, Outcome, cause_of, describe_by
from copyrator.api.text import said, short_digest, time_since
from copyrator.bundles.fields import parse_status
from copyrator.bundles.jobs.outcome import is_owned, secrets_of
from copyrator.bundles.jobs.pod import DEPLOY_CONTAINER, LOGIN_CONTAINER, JobKind
from copyrator.bundles.jobs.redaction import Redactor, WithheldError
from copyrator.cli.bundles.plan_log import hide_secrets, remove_no_errors
from copyrator.cli.core.faults import Fault, hint_about
from copyrator.cli.core.objects import Body, ObjectOptions, jobs_of, object_options, pods_of, shown
from copyrator.cli.core.output import Column, Format, Kind, Table, dump, output_option, prose, typed
from copyrator.cli.view.bundle import BundleView, passed_over
from copyrator.kube import errors
from copyrator.kube.watch.reflector import name_of

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient


SHOWN_LINES = 1000
"""Last lines of a log that a page shows."""
_OF_DEPLOYS = f"{names.LABEL_JOB_KIND} notin ({JobKind.PLAN},{JobKind.DRIFT})"


@click.command()
@object_options("bundles")
@click.option("--plan", is_flag=True, help="Of the newest plan Job instead.")
async def logs(options: ObjectOptions, *, plan: bool) -> None:
    """Print the log of a Bundle's newest Job; if that is deleted, its end from the status.

    Jobs that only make plans don't count; --plan prints the log of the newest of those. It names
    the Job, whose log kubectl logs -f follows.
    """
    async with options.target.connect() as client:
        body = await options.read(client)
        of_kind = f"{names.LABEL_JOB_KIND}={JobKind.PLAN}" if plan else _OF_DEPLOYS
        for job in await _newest_jobs(client, body, of_kind):
            printed = False
            async for container, text in _texts(client, job):
                click.echo(f"--- Job {name_of(job).name}, container {container}", err=True)
                click.echo(text.rstrip("\n"))
                printed = True
            if printed:
                return
        if plan:
            advice = hint_about("plan", "bundle", body, "--refresh")
            raise Fault(
                f"{shown('bundles', body)} has no plan Job with a log; make a plan: {advice}"
            )
        _print_kept(body)


async def _newest_jobs(client: KubeClient, body: Body, of_kind: str) -> list[dict[str, Any]]:
    """A Bundle's Jobs of these kinds, the newest first."""
    jobs = await jobs_of(client, *name_of(body), of_kind)
    return sorted(jobs, key=lambda job: str(job["metadata"]["creationTimestamp"]), reverse=True)


async def redacted_parts(client: KubeClient, body: Body) -> list[tuple[str, str]]:
    """Head and log of each container of a Bundle's newest Job, without the values of its Secrets.

    What can't be redacted, for want of the permission to read those Secrets, is withheld; the end
    of the last failed Job's log, which the operator has redacted, is in the status.
    """
    redaction = Redactor(client)
    found: list[tuple[str, str]] = []
    try:
        for job in (await _newest_jobs(client, body, _OF_DEPLOYS))[:1]:
            namespace, name = name_of(job)
            secrets = secrets_of(await _pods(client, job))
            async for container, text in _texts(client, job, SHOWN_LINES):
                head = f"Job {name}, container {container}"
                try:
                    (text,) = await redaction.redacted(namespace, secrets, [text])  # noqa: PLW2901
                except WithheldError as error:
                    text = error.in_place_of_log(namespace, name)  # noqa: PLW2901
                found.append((head, text))
    finally:
        await redaction.close()
    last = parse_status(body).last_error
    if last.log_tail:
        found.append((f"The end of the last failed log ({last.time})", last.log_tail))
    return found or [("No log", "There is no Job with a log; the history has the outcomes.")]


async def _pods(client: KubeClient, job: Body) -> list[dict[str, Any]]:
    """The pods that a Job owns, oldest first: others may have its label."""
    found = await pods_of(client, job)
    mine = [pod for pod in found if is_owned(pod, job["metadata"]["uid"])]
    return sorted(mine, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))


async def _texts(
    client: KubeClient, job: Body, tail: int | None = None
) -> AsyncIterator[tuple[str, str]]:
    """Container and log of each container of the operator's in a Job's pods that has a log.

    In that of a plan values of Secrets are hidden, and a line of werf's is left out that reads as
    an error and is none.
    """
    is_plan = (job["metadata"].get("labels") or {}).get(names.LABEL_JOB_KIND) == JobKind.PLAN
    for pod in await _pods(client, job):
        namespace, name = name_of(pod)
        containers = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
        ours = [c["name"] for c in containers if c["name"] in (LOGIN_CONTAINER, DEPLOY_CONTAINER)]
        for container in ours:
            text = ""
            with suppress(errors.NotFound, errors.BadRequest):  # it hasn't started
                text = await client.read_log(namespace, name, container, tail_lines=tail)
            if is_plan:
                text = hide_secrets(remove_no_errors(text))
            if text:
                yield container, text


def _print_kept(body: Body) -> None:
    """The end of the last failed Job's log."""
    status = parse_status(body)
    error, attempt = status.last_error, status.attempted
    if error.log_tail:
        click.echo(f"--- end of the log, from the status ({error.time})", err=True)
        click.echo(error.log_tail)
        return
    last = f"; the last attempt, {attempt.job}, {attempt.outcome}" if attempt.job else ""
    raise Fault(
        f"{shown('bundles', body)} has no Job with a log{last}. Jobs are deleted "
        "spec.job.ttlSecondsAfterFinished seconds after their end; "
        f"{hint_about('history', 'bundle', body)} shows their outcomes"
    )


@click.command()
@object_options("bundles")
@output_option
async def history(options: ObjectOptions) -> None:
    """Show the last ten attempts of a Bundle, newest first.

    CAUSE is what an attempt was made for. Below is who approved it; else the field manager that
    wrote what it was made for: a client chooses that name.
    """
    async with options.target.connect() as client:
        body = await options.read(client)
    view, shape = BundleView(body, datetime.now(UTC)), options.shape
    entries = view.status.past
    match shape:
        case Format.JSON | Format.YAML:
            items = view.status.history.to_list()
            dump(typed(Kind.ATTEMPT_LIST, {"items": items}), shape)
        case Format.NAME:
            for entry in entries:
                click.echo(f"job.batch/{entry.job}")
        case _ if not entries:
            click.echo(f"{shown('bundles', body)} hasn't been deployed yet.", err=True)
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
    """By what it was made, and the gates that a forced deploy or rollback passed over."""
    over = passed_over(entry.passed_over)
    parts = describe_by(entry), f"passed over {over}" if over else ""
    return said("; ".join(filter(None, parts))) if any(parts) else ""


def history_columns(view: BundleView) -> list[Column]:
    """The columns; causes and notes only where there are any."""
    caused, noted = (any(map(found, view.status.past)) for found in (cause_of, _note))
    return [
        Column("WHEN", lambda entry: time_since(entry.time, view.now)),
        Column("VERSION", lambda entry: said(entry.version)),
        Column("DIGEST", lambda entry: short_digest(entry.digest), spare=1),
        Column("REVISION", lambda entry: said(entry.revision), spare=2),
        Column("OUTCOME", lambda entry: said(entry.outcome)),
        Column("CAUSE", lambda entry: said(cause_of(entry)), wide=not caused),
        Column("PLAN", lambda entry: said(entry.plan), wide=True),
        Column("JOB", lambda entry: said(entry.job), wide=True),
        Column("REASON", lambda entry: said(entry.reason), spare=3),
        Column("NOTE", _note, wide=not noted, below=True),
    ]
