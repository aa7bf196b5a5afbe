"""`bundle apply` and `bundle plan`."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import locking, registry, release, rendering, saving, text
from .client import Client, RefusedError
from .errors import WerfError, doing, failure
from .executing import Execution
from .planning import Operation, Plan, Planner
from .settings import Deploy, process_environment


def apply(deploy: Deploy) -> None:
    """Pull a bundle and deploy it.

    Raises:
        WerfError: something failed; from the deploy on there is a report as well.
    """
    with told(deploy.version), contextlib.ExitStack() as stack:
        source: saving.SavedPlan | release.Helm
        if deploy.use_plan:
            source = saving.load(deploy.use_plan, deploy)
        else:
            source = stack.enter_context(_pulled(deploy))
        stack.enter_context(doing("release install"))
        with _locked(deploy, source.added, create_namespace=deploy.create_namespace) as deployment:
            deployment.run(source)


def roll_back(deploy: Deploy, revision: int) -> None:
    """Deploy again what is stored of a revision."""
    with told(deploy.version), doing("release rollback"):
        added = {"annotations": deploy.annotations, "labels": deploy.labels}
        with _locked(deploy, added, create_namespace=False) as deployment:
            deployment.roll_back_to(revision)


def plan(deploy: Deploy) -> None:
    """Pull a bundle, and say what deploying it would do.

    Raises:
        WerfError: something failed; or with code 2 there is something to do and the exit code is
            to tell, with code 3 (werf 3) no more than a release to be stored.
    """
    with told(deploy.version):
        with _pulled(deploy) as helm, doing("release plan install"):
            client = Client(deploy.namespace)
            past = release.history(deploy.release, client, newest=deploy.newest)
            planned = Planner(deploy, client, helm.added).plan(helm, past)
            if deploy.graph:
                text.write_graph(planned, deploy, deploy.graph)
            if deploy.save_plan:
                saving.save(planned, past, deploy, helm.added)
        text.show(planned, deploy)
    if not deploy.exit_code or planned.useless:
        return
    if deploy.newest and not planned.operations:
        raise WerfError("no resource changes planned, but still must install release", 3)
    raise WerfError("resource changes planned" if deploy.newest else "changes planned", 2)


def render(deploy: Deploy) -> None:
    """Pull a bundle, and print its manifests, Secrets too; nothing else."""
    with _pulled(deploy, silently=True) as helm, doing("chart render"):
        past = None
        if deploy.validate:
            client = Client(deploy.namespace)
            past = release.history(deploy.release, client, newest=deploy.newest)
        sys.stdout.flush()
        for name, text in rendering.render(deploy, helm, past):
            try:
                with open(1, "wb", closefd=False) as output:
                    output.write(text.encode())
            except OSError as error:
                words = f"write /dev/stdout: {str(error.strerror).lower()}"
                done = f'render resource "{name}": write resource to output'
                raise WerfError(f"{done}: write to output: {words}") from None


class _Deployment:
    """One deploy of a chart over what is stored."""

    def __init__(
        self, deploy: Deploy, client: Client, added: Mapping[str, Mapping[str, str]]
    ) -> None:
        self._deploy = deploy
        self._client = client
        self._added = added
        self._past: list[release.Release] = []
        self._execution = Execution(client, deploy.version, deploy.namespace, deploy.timeout)

    def run(self, source: saving.SavedPlan | release.Helm) -> None:
        """Do what is planned after the releases before; the progress isn't printed."""
        deploy, outcomes = self._deploy, self._execution.outcomes
        name = self._begin()
        if isinstance(source, saving.SavedPlan):
            planned = source.plan(self._past)
        else:
            planned = self._planner().plan(source, self._past)
        if planned.useless:
            _report(deploy, planned.new.revision, "skipped")
            print(f"Skipped {name}: cluster resources already as desired")
            return
        causes = self._execute(planned, "release install")
        if causes and deploy.auto_rollback and planned.superseded:
            causes += self._roll_back(planned)
        _report(deploy, planned.new.revision, "failed" if causes else "deployed", outcomes)
        if causes:
            raise failure(f"failed {name}", causes)
        print(f"Succeeded {name}")

    def roll_back_to(self, revision: int) -> None:
        """Deploy again what is stored of a revision."""
        name = self._begin()
        to = next((each for each in self._past if each.revision == revision), None)
        if to is None:
            raise WerfError(f"release revision {revision} not found")
        last = self._past[-1]
        planned = self._planner().plan_rollback(to, last, self._past, {})
        if causes := self._execute(planned, "rollback"):
            raise failure(f"failed {name}", causes)
        print(f"Succeeded {name}")

    def _begin(self) -> str:
        """Read what is stored; returns how the release is named."""
        deploy = self._deploy
        name = f'release "{deploy.release}" (namespace: "{deploy.namespace}")'
        self._past = release.history(deploy.release, self._client, newest=deploy.newest)
        print(f"Start {name}", flush=True)
        return name

    def _planner(self) -> Planner:
        return Planner(self._deploy, self._client, self._added)

    def _execute(self, planned: Plan, what: str) -> list[str]:
        """Do what was planned, and store what came of it; why it failed, if it did."""
        new, is_stored = planned.new, False
        try:
            with doing("wait for operations completion: execute operation"):
                self._past = release.store(new, self._past, self._client, self._deploy.history)
            is_stored = True
            self._execution.run([*planned.operations, *planned.waited])
            _check_tracking(self._deploy, planned, self._client)
            with doing("wait for operations completion: execute operation"):
                for former in planned.superseded:
                    release.update(former, "superseded", self._client)
                release.update(new, "deployed", self._client)
        except WerfError as error:
            causes = [f"execute {what} plan: {error}"]
        else:
            return []
        try:
            if is_stored:
                release.update(new, "failed", self._client)
                self._execution.run_after_failure()
        except WerfError as error:
            causes.append(f"execute failure plan: {error}")
        return causes

    def _roll_back(self, failed: Plan) -> list[str]:
        """Install the last good revision anew; why that failed, if it did.

        As the real one, it ends where the API server refused to create or change an object: what
        was done before stays.
        """
        bad = failed.new.with_status("failed")
        try:
            planned = self._planner().plan_rollback(
                failed.superseded[-1], bad, self._past, self._execution.refusals
            )
        except WerfError as error:
            return [str(error)]
        return self._execute(planned, "rollback")


@contextlib.contextmanager
def _locked(
    deploy: Deploy, added: Mapping[str, Mapping[str, str]], *, create_namespace: bool
) -> Iterator[_Deployment]:
    """Hold the release's lock."""
    client = Client(deploy.namespace)
    with doing("lock release"):
        lock = locking.prepare(deploy.namespace, client, create_namespace=create_namespace)
    with locking.locked(deploy.release, deploy.namespace, client, lock):
        yield _Deployment(deploy, client, added)


def _check_tracking(deploy: Deploy, planned: Plan, client: Client) -> None:
    """List the events that tracking watches: in an object's namespace, or in `default`."""
    every = [*planned.operations, *planned.waited]
    tracked = [each for each in every if each.type != "delete" and deploy.watch_events]
    for namespace in sorted({_place_of_events(each, deploy, client) for each in tracked} - {""}):
        try:
            client.list_events(namespace)
        except RefusedError as error:
            watch = "unrecoverable watch error for /v1, Resource=events"
            listed = f"failed to list *unstructured.Unstructured: {error}"
            cause = f"execution canceled: context canceled: watch error: {watch}: {listed}"
            raise WerfError(cause) from None


def _place_of_events(operation: Operation, deploy: Deploy, client: Client) -> str:
    """Where the events of an object are; empty for what isn't tracked."""
    kind, namespace, _ = operation.key
    resource = client.resource(operation.body)
    if kind == "CustomResourceDefinition" or not resource:
        return ""
    return (namespace or deploy.namespace) if resource["namespaced"] else "default"


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
