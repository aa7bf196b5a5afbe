"""`copyrator logs`: the log of a Bundle's newest Job."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import click

from copyrator.api import names
from copyrator.cli.cluster import Target, cluster_options, run, split_name
from copyrator.cli.faults import Fault
from copyrator.cli.hints import hint_about
from copyrator.cli.objects import What, complete_names, listed, one
from copyrator.kube import errors
from copyrator.kube.client.client import KubeClient
from copyrator.kube.resources import JOBS, PODS


@click.command()
@click.argument("what", type=What("bundles"))
@click.argument("name", metavar="[NAMESPACE/]NAME", shell_complete=complete_names)
@cluster_options()
@click.option("--tail", type=click.IntRange(min=1), metavar="LINES", help="Only the last lines.")
def logs(target: Target, what: str, name: str, tail: int | None) -> None:
    """Print the log of a Bundle's newest Job; if that is deleted, its end from the status."""
    run(_logs(target, what, name, tail))


async def _logs(target: Target, what: str, name: str, tail: int | None) -> None:
    async with target.connect() as client:
        namespace, name = split_name(name, "" if "/" in name else target.namespace)
        body = await one(client, what, namespace, name)
        selector = f"{names.LABEL_BUNDLE}={name}"
        jobs = await listed(client, JOBS, namespace, selector=selector)
        jobs.sort(key=lambda job: job["metadata"]["creationTimestamp"], reverse=True)
        for job in jobs:
            if await _print_job(client, namespace, job["metadata"]["name"], tail):
                return
        _print_kept(body, namespace, name)


async def _print_job(client: KubeClient, namespace: str, job: str, tail: int | None) -> bool:
    """Print the logs of a Job's pods; False where there are none."""
    pods = await listed(client, PODS, namespace, selector=f"batch.kubernetes.io/job-name={job}")
    said = False
    for pod in sorted(pods, key=lambda pod: pod["metadata"]["creationTimestamp"]):
        name = pod["metadata"]["name"]
        containers = [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]
        for container in containers:
            text = ""
            with suppress(errors.NotFound, errors.BadRequest):  # it hasn't started
                text = await client.read_log(namespace, name, container["name"], tail_lines=tail)
            if text:
                click.echo(f"--- Job {job}, container {container['name']}", err=True)
                click.echo(text.rstrip("\n"))
                said = True
    return said


def _print_kept(body: Mapping[str, Any], namespace: str, name: str) -> None:
    """The end of the last failed Job's log."""
    error = (body.get("status") or {}).get("lastError") or {}
    attempt = (body.get("status") or {}).get("attempted") or {}
    if error.get("logTail"):
        click.echo(f"--- end of the log, from the status ({error.get('time')})", err=True)
        click.echo(error["logTail"])
        return
    last = f"; the last attempt, {attempt['job']}, {attempt.get('outcome')}" if attempt else ""
    raise Fault(
        f"bundle {namespace}/{name} has no Job with a log{last}. Jobs are deleted "
        "spec.job.ttlSecondsAfterFinished seconds after their end; "
        f"{hint_about('history', 'bundle', body)} shows their outcomes"
    )
