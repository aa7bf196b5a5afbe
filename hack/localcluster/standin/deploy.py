"""`bundle apply` and `bundle plan`."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import dependencies, graph, manifests, registry, release, rendering, text, tools
from .client import Client
from .errors import ChangesPlannedError, ReleasePlannedError, WerfError, doing
from .planning import Operation, Planner
from .settings import Deploy, process_environment

FIRST_APPLY_SECONDS = 4
"""What a first apply of the real werf takes on an idle machine: a shorter time-out ends it."""


def apply(deploy: Deploy) -> None:
    """Pull a bundle and deploy it.

    Raises:
        WerfError: something failed; from the deploy on there is a report as well.
    """
    with (
        _told(deploy),
        _pulled(deploy) as helm,
        release.locked(deploy.release, deploy.namespace),
        doing("release install"),
    ):
        client = Client(deploy.namespace)
        release.make_namespace(deploy, client)
        past = release.history(deploy.release, client)
        past = release.forget_interrupted(deploy.release, deploy.namespace, past)
        _carry_out(deploy, helm, past, client)


def plan(deploy: Deploy) -> None:
    """Pull a bundle, and say what deploying it would do.

    Raises:
        ChangesPlannedError: there is something to do, and the exit code is to tell.
        WerfError: something failed.
    """
    with _told(deploy):
        with _pulled(deploy) as helm, doing("release plan install"):
            client = Client(deploy.namespace)
            past = release.history(deploy.release, client)
            planned = Planner(deploy, client).plan(helm, release.without_interrupted(past))
            if deploy.graph:
                graph.write(planned, deploy.graph)
        text.show(planned, deploy)
    if not deploy.exit_code or planned.useless:
        return
    if deploy.newest and not planned.operations:
        raise ReleasePlannedError("no resource changes planned, but still must install release")
    raise ChangesPlannedError("resource changes planned" if deploy.newest else "changes planned")


def render(deploy: Deploy) -> None:
    """Pull a bundle, and print its manifests, Secrets too; nothing else.

    Raises:
        WerfError: the chart can't be rendered, or what reads the output has no place for it.
    """
    with _pulled(deploy, silently=True) as helm, doing("chart render"):
        past = None
        if deploy.validate:
            client = Client(deploy.namespace)
            past = release.without_interrupted(release.history(deploy.release, client))
        text = rendering.render(deploy, helm, past)
    try:
        sys.stdout.flush()
        with open(1, "wb", closefd=False) as output:
            output.write(text.encode())
    except OSError as error:
        raise WerfError(f"write /dev/stdout: {error.strerror}") from None


def _carry_out(
    deploy: Deploy, helm: release.Helm, past: list[release.Release], client: Client
) -> None:
    """Plan a deploy, and do what was planned; the progress isn't printed."""
    print(f'Start release "{deploy.release}" (namespace: "{deploy.namespace}")')
    name = f'release "{deploy.release}" (namespace: "{deploy.namespace}")'
    planner = Planner(deploy, client)
    planned = planner.plan(helm, past)
    if planned.useless:
        _report(deploy, planned.revision, "skipped")
        print(f"Skipped {name}: cluster resources already as desired")
        return
    waited = [replace(operation, type="update") for operation in planned.waited]
    changes = planned.operations or waited
    if not past and deploy.timeout and deploy.timeout < FIRST_APPLY_SECONDS:
        _report(deploy, planned.revision, "failed", {"canceled": changes})
        raise WerfError(f"failed {name}: context deadline exceeded")
    ran = helm.install()
    planner.settle(planned, succeeded=ran.code == 0)
    if ran.code == 0:
        _report(deploy, planned.revision, "deployed", {"completed": changes})
        print(f"Succeeded {name}")
        return
    operations = _sorted_out(changes, ran.error, deploy.namespace)
    words = ran.last_words
    good = [former for former in past if former.status == "deployed"]
    if deploy.auto_rollback and good:
        words = _roll_back(deploy, helm, good[-1], operations, ran)
    _report(deploy, planned.revision, "failed", operations)
    raise WerfError(f"failed {name}: execute release install plan: {words}")


def _roll_back(
    deploy: Deploy,
    helm: release.Helm,
    good: release.Release,
    operations: dict[str, list[Operation]],
    ran: tools.Ran,
) -> str:
    """Install the last good revision anew, in time of its own; return the words of the error.

    As the real one, it fails where the new version has an object that the API server calls
    invalid: what was changed before stays.
    """
    if "is invalid" in ran.error:
        return f"2 errors occurred: {ran.last_words}; rollback: {ran.last_words}"
    helm.roll_back(good.revision)
    objects = manifests.keyed(manifests.parse(good.manifest), deploy.namespace)
    operations["completed"] += [Operation("update", key, body) for key, body in objects.items()]
    return ran.last_words


@contextlib.contextmanager
def _told(deploy: Deploy) -> Iterator[None]:
    """Say first which werf this is, and at the end how long it took."""
    started = time.monotonic()
    print(f"Version: {deploy.version}")
    try:
        yield
    finally:
        print(f"Running time {time.monotonic() - started:.2f} seconds")


@contextlib.contextmanager
def _pulled(deploy: Deploy, *, silently: bool = False) -> Iterator[release.Helm]:
    """Pull the bundle for as long as it is needed, and say so in werf's words.

    Without the lines of the bundle's size, name and version.
    """
    with tempfile.TemporaryDirectory(prefix="werf-bundle-") as directory:
        root = Path(directory)
        name = f"{deploy.repo}:{deploy.tag}"
        with contextlib.redirect_stdout(io.StringIO() if silently else sys.stdout):
            with _frame(f'Pulling bundle "{name}"'):
                print(f"{deploy.tag}: Pulling from {deploy.repo}")
                digest, chart = registry.pull(deploy.repo, deploy.tag, deploy.access, root)
                about = f"ref:     {name}\ndigest:  {digest.removeprefix('sha256:')}"
                print(f"{about}\nStatus: Chart is up to date for {name}")
            with _frame(f'Exporting bundle "{name}"'):
                print(about)
            sys.stdout.flush()
        dependencies.complete(chart, process_environment())
        values = root / "service-values.json"
        values.write_text(json.dumps(_service_values(deploy)))
        yield release.Helm(deploy, chart, [values])


@contextlib.contextmanager
def _frame(title: str) -> Iterator[None]:
    """Print a frame, with the time that it took."""
    started = time.monotonic()
    failed = " FAILED"
    print(f"┌ {title}")
    try:
        yield
        failed = ""
    finally:
        print(f"└ {title} ({time.monotonic() - started:.2f} seconds){failed}\n")


def _service_values(deploy: Deploy) -> dict[str, Any]:
    """The values that werf gives to every chart."""
    werf: dict[str, Any] = {"version": deploy.version, "namespace": deploy.namespace}
    values: dict[str, Any] = {"werf": werf, "global": {"werf": werf}}
    if deploy.environment:
        werf["env"] = values["global"]["env"] = deploy.environment
    return values


def _sorted_out(changes: list[Operation], error: str, namespace: str) -> dict[str, list[Operation]]:
    """Tell which changes of a failed deploy were made, which failed, which weren't come to."""
    wanted = [change for change in changes if change.type != "delete"]
    bodies = "\n---\n".join(json.dumps(change.body) for change in wanted)
    place = ("-n", namespace, "--ignore-not-found", "-o", "json", "-f", "-")
    read = tools.run("kubectl", "get", *place, stdin=bodies) if bodies else tools.Ran(0, "", "")
    found = [item for each in tools.json_stream(read.output) for item in each.get("items", [each])]
    live = manifests.keyed(found, namespace)
    result: dict[str, list[Operation]] = {"completed": [], "failed": [], "canceled": []}
    for change in wanted:
        if f'"{change.key[2]}"' in error or f"/{change.key[2]}" in error:
            result["failed"].append(change)
        elif change.key not in live:
            result["canceled"].append(change)
        elif not manifests.finished(live[change.key]):
            result["failed"].append(change)
        else:
            result["completed"].append(change)
    if not result["failed"]:
        result["failed"], result["canceled"] = result["canceled"], []
    result["canceled"] += [change for change in changes if change.type == "delete"]
    return result


def _report(
    deploy: Deploy, revision: int, status: str, operations: dict[str, list[Operation]] | None = None
) -> None:
    """Print what was done, and write the report file if one is wanted."""
    report: dict[str, Any] = {
        **({"apiVersion": "v3"} if deploy.newest else {"version": 3}),
        "release": deploy.release,
        "namespace": deploy.namespace,
        "revision": revision,
        "status": status,
    }
    for outcome, changes in (operations or {}).items():
        if changes:
            report[f"{outcome}Operations"] = sorted(map(str, changes))
            title = f"{outcome.capitalize()} operations"
            print(f"┌ {title}")
            for line in report[f"{outcome}Operations"]:
                print(f"│ {line[0].upper()}{line[1:]}")
            print(f"└ {title}\n")
    if deploy.report:
        deploy.report.write_text(json.dumps(report))
