"""`bundle apply` and `bundle plan`."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import manifests, registry, release, rendering, text, tools
from .client import Client, RefusedError
from .errors import ChangesPlannedError, ReleasePlannedError, WerfError, doing, failure
from .planning import Operation, Planner
from .settings import Deploy, process_environment

_EXECUTED = "execute release install plan"
_OPERATION = "wait for operations completion: execute operation"
_NOT_READY = re.compile(r"not ready|timed out|deadline exceeded|BackoffLimit|Failed")
_LATE = re.compile(r"not ready|timed out|deadline exceeded")
_NO_KIND = re.compile(r'no matches for kind "([^"]+)" in version "([^"]+)"')
_TRACKERS = {
    "Deployment": "deployment",
    "StatefulSet": "statefulset",
    "DaemonSet": "daemonset",
    "Job": "job",
    "Pod": "standalone pod",
}


def apply(deploy: Deploy) -> None:
    """Pull a bundle and deploy it.

    Raises:
        WerfError: something failed; from the deploy on there is a report as well.
    """
    with (
        told(deploy.version),
        _pulled(deploy) as helm,
        release.locked(deploy.release, deploy.namespace),
        doing("release install"),
    ):
        client = Client(deploy.namespace)
        release.make_namespace(deploy, client)
        past = release.history(deploy.release, client, newest=deploy.newest)
        _carry_out(deploy, helm, past, client)


def plan(deploy: Deploy) -> None:
    """Pull a bundle, and say what deploying it would do.

    Raises:
        ChangesPlannedError: there is something to do, and the exit code is to tell.
        WerfError: something failed.
    """
    with told(deploy.version):
        with _pulled(deploy) as helm, doing("release plan install"):
            client = Client(deploy.namespace)
            past = release.history(deploy.release, client, newest=deploy.newest)
            planned = Planner(deploy, client).plan(helm, past)
            if deploy.graph:
                text.write_graph(planned, deploy.graph)
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
            past = release.without_interrupted(
                release.history(deploy.release, client, newest=deploy.newest)
            )
        sys.stdout.flush()
        for name, text in rendering.render(deploy, helm, past):
            try:
                with open(1, "wb", closefd=False) as output:
                    output.write(text.encode())
            except OSError as error:
                words = f"write /dev/stdout: {str(error.strerror).lower()}"
                done = f'render resource "{name}": write resource to output'
                raise WerfError(f"{done}: write to output: {words}") from None


def _carry_out(
    deploy: Deploy, helm: release.Helm, past: list[release.Release], client: Client
) -> None:
    """Plan a deploy, and do what was planned; the progress isn't printed."""
    print(f'Start release "{deploy.release}" (namespace: "{deploy.namespace}")')
    name = f'release "{deploy.release}" (namespace: "{deploy.namespace}")'
    planner = Planner(deploy, client)
    planned = planner.plan(helm, past)
    past = release.forget_interrupted(deploy.release, deploy.namespace, past)
    if planned.useless:
        _report(deploy, planned.revision, "skipped")
        print(f"Skipped {name}: cluster resources already as desired")
        return
    waited = [replace(operation, type="update") for operation in planned.waited]
    changes = planned.operations or waited
    ran = helm.install()
    planner.settle(planned, succeeded=ran.code == 0)
    untracked = _untracked(deploy, changes, client) if ran.code == 0 else ""
    if ran.code == 0 and not untracked:
        _report(deploy, planned.revision, "deployed", {"completed": changes})
        print(f"Succeeded {name}")
        return
    if untracked:
        release.mark_failed(deploy.release, planned.revision, client)
        operations = {"completed": changes}
        causes = [f"{_EXECUTED}: execution canceled: context canceled: watch error: {untracked}"]
    else:
        blamed, operations = _sorted_out(changes, ran.error, deploy.namespace)
        words = _in_words_of_nelm(blamed, ran.last_words, deploy, client)
        causes = [f"{_EXECUTED}: {_OPERATION}: {words}"]
    good = [former for former in past if former.status == "deployed"]
    if deploy.auto_rollback and good:
        causes += _roll_back(helm, good[-1], operations, causes[0])
    _report(deploy, planned.revision, "failed", operations)
    raise failure(f"failed {name}", causes)


def _untracked(deploy: Deploy, changes: list[Operation], client: Client) -> str:
    """Why what was deployed can't be tracked; empty if it can.

    Tracking lists and watches the events of an object's namespace, `default` for those in none.
    """
    tracked = [each for each in changes if each.type != "delete" and deploy.watch_events]
    for namespace in sorted({_place_of_events(each, deploy, client) for each in tracked} - {""}):
        try:
            client.list_events(namespace)
        except RefusedError as error:
            watch = "unrecoverable watch error for /v1, Resource=events"
            return f"{watch}: failed to list *unstructured.Unstructured: {error}"
    return ""


def _place_of_events(operation: Operation, deploy: Deploy, client: Client) -> str:
    """Where the events of an object are; empty for what isn't tracked."""
    kind, namespace, _ = operation.key
    resource = client.resource(operation.body)
    if kind == "CustomResourceDefinition" or not resource:
        return ""
    return (namespace or deploy.namespace) if resource["namespaced"] else "default"


def _in_words_of_nelm(failed: Operation, words: str, deploy: Deploy, client: Client) -> str:
    """What nelm says of an operation of which helm says something else."""
    name = manifests.titled(failed.key)
    kind, namespace, own = failed.key
    if _NOT_READY.search(words):
        tracked = f'"{namespace or deploy.namespace}/{kind}/{own}"'
        late = f"track resource {tracked}: context deadline exceeded"
        broken = f"waiting for resource {tracked} readiness failed"
        why = late if _LATE.search(words) else broken
        return f"track resource readiness: track {_TRACKERS.get(kind, 'generic')}: {why}"
    done = "create" if failed.type in ("create", "recreate") else "apply"
    if found := _NO_KIND.search(words):
        asked = f'get resource mapping for "{found[2]}, Kind={found[1]}": {found[0]}'
        if deploy.version != "v2.67.0":
            again = "retry mapper NoMatch timed out after 10s"
            asked = f"{again}: get GVK to GVR mapping: {asked}"
        return f"{done} resource: convert GVK to GVR: {asked}"
    written = f'server-side apply resource "{name}": {_retried(deploy)}'
    return f"{done} resource: {written}{_refusal(failed, words, client)}"


def _refusal(failed: Operation, words: str, client: Client) -> str:
    """Why the API server refuses an object: that helm asks in another way has other words."""
    with contextlib.suppress(WerfError):
        try:
            client.dry_apply(failed.body)
        except RefusedError as error:
            return str(error)
    return release.SAID_BY_HELM.sub("", words).partition(" && ")[0]


def _retried(deploy: Deploy) -> str:
    """A layer that 2.67 hasn't."""
    return "" if deploy.version == "v2.67.0" else "retryable on webhook error: server-side apply: "


def _roll_back(
    helm: release.Helm,
    good: release.Release,
    operations: dict[str, list[Operation]],
    cause: str,
) -> list[str]:
    """Install the last good revision anew, in time of its own; return why that failed.

    As the real one, it fails where the new version has an object that the API server calls
    invalid: what was changed before stays.
    """
    if found := re.search(r'server-side apply resource ("[^"]+"): (.* is invalid: .*)', cause):
        layers = "wait for prev release resource pool: build deletable resource info"
        cached = f"get resource {found[1]}: get resource {found[1]} from client cache"
        return [f"build resource infos: {layers}: {cached}: {found[2]}"]
    helm.roll_back(good.revision)
    objects = manifests.keyed(manifests.parse(good.manifest), helm.namespace)
    operations["completed"] += [Operation("update", key, body) for key, body in objects.items()]
    return []


@contextlib.contextmanager
def told(version: str) -> Iterator[None]:
    """Say first which werf this is, and at the end how long it took."""
    started = time.monotonic()
    print(f"Version: {version}")
    try:
        yield
    finally:
        print(f"Running time {time.monotonic() - started:.2f} seconds")


@contextlib.contextmanager
def _pulled(deploy: Deploy, *, silently: bool = False) -> Iterator[release.Helm]:
    """Pull the bundle for as long as it is needed, and say so in werf's words."""
    with tempfile.TemporaryDirectory(prefix="werf-bundle-") as directory:
        root = Path(directory)
        name = f"{deploy.repo}:{deploy.tag}"
        with contextlib.redirect_stdout(io.StringIO() if silently else sys.stdout):
            with frame(f'Pulling bundle "{name}"'):
                print(f"{deploy.tag}: Pulling from {deploy.repo}")
                pulled = registry.pull(deploy.repo, deploy.tag, deploy.access, root)
                about = _about(name, pulled)
                print(f"{about}\nStatus: Chart is up to date for {name}")
            with frame(f'Exporting bundle "{name}"'):
                print(about)
            sys.stdout.flush()
        registry.complete_dependencies(pulled.chart, process_environment())
        values = root / "service-values.json"
        values.write_text(json.dumps(_service_values(deploy)))
        yield release.Helm(deploy, pulled.chart, [values])


def _about(name: str, pulled: registry.Pulled) -> str:
    size, units = float(pulled.size), ["B", "KiB", "MiB", "GiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    told = {
        "ref": name,
        "digest": pulled.digest.removeprefix("sha256:"),
        "size": f"{size:.{0 if units[0] == 'B' else 1}f} {units[0]}",
        "name": pulled.name,
        "version": pulled.version,
    }
    return "\n".join(f"{label + ':':8} {text}" for label, text in told.items())


@contextlib.contextmanager
def frame(title: str, *, shown: bool = True) -> Iterator[None]:
    """Print a frame, with the time that it took, if it is to be shown."""
    if not shown:
        yield
        return
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


def _sorted_out(
    changes: list[Operation], error: str, namespace: str
) -> tuple[Operation, dict[str, list[Operation]]]:
    """Tell which change of a failed deploy is to blame, and which were made, failed, not come to.

    What was made and isn't ready counts as made: tracking is no operation of a report.
    """
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
    blamed = result["failed"][0]
    if _NOT_READY.search(error):
        result["completed"] += result["failed"]
        result["failed"] = []
    return blamed, result


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
            print_operations(outcome, report[f"{outcome}Operations"])
    if deploy.report:
        deploy.report.write_text(json.dumps(report))


def print_operations(outcome: str, lines: Sequence[str]) -> None:
    """Print a report's operations of one outcome, each as `create: Kind/name`."""
    title = f"{outcome.capitalize()} operations"
    print(f"┌ {title}")
    for line in lines:
        print(f"│ {line[0].upper()}{line[1:]}")
    print(f"└ {title}\n")
