"""`helm uninstall` and `dismiss` of werf 2, and `dismiss` of werf 3."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterable

from . import locking, manifests, release
from .client import Client
from .deploy import frame, print_operations, told
from .errors import WerfError, doing, failure
from .executing import Execution
from .manifests import HOOK, Object, core
from .planning import Operation, stage_of
from .release import Release
from .settings import Dismiss

_ORDER = (
    *("Ingress", "Service", "CronJob", "Job", "StatefulSet", "Deployment", "ReplicaSet", "Pod"),
    *("DaemonSet", "RoleBinding", "Role", "ClusterRoleBinding", "ClusterRole"),
    *("CustomResourceDefinition", "PersistentVolumeClaim", "ConfigMap", "Secret"),
)
"""In which helm uninstalls; others after these."""
_MANAGER = "werf"
"""The field manager of hooks that werf 2 makes by helm."""
_KEPT = "helm.sh/resource-policy"


def uninstall(name: str, namespace: str, *, wait: bool, or_none: bool) -> None:
    """Uninstall a release as helm does it in werf 2, with no lock.

    The wait for the deletion ends neither by `--timeout` nor by a signal.
    """
    if wait:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    client = Client(namespace)
    with doing(f"uninstall: Release not loaded: {name}"):
        past = release.history(name, client, layers="query")
        if not past and not or_none:
            raise WerfError("release: not found")
    if past:
        _Uninstall(name, namespace, past, client).run(wait=wait)
    print(f'release "{name}" uninstalled')


class _Uninstall:
    """One release, as helm uninstalls it."""

    def __init__(self, name: str, namespace: str, past: list[Release], client: Client) -> None:
        self._name = name
        self._namespace = namespace
        self._past = past
        self._client = client
        self._execution = Execution(client, "v2", namespace, None)
        found = manifests.parse_each([past[-1].manifest, *past[-1].hooks])
        self._objects = found[0]
        self._hooks = [
            (path, body)
            for path, bodies in zip(past[-1].paths, found[1:], strict=True)
            for body in bodies
        ]

    def run(self, *, wait: bool, delete_hooks: bool = False) -> None:
        """Do all of it.

        Raises:
            WerfError: something is refused. A hook after the deletion doesn't keep the release.
        """
        release.update(self._past[-1], "uninstalling", self._client)
        self._run_hooks("pre")
        refused = self._delete(self._in_order(self._objects), wait=wait)
        if refused:
            raise WerfError(f"failed to delete release: {self._name}")
        errors = []
        try:
            self._run_hooks("post")
        except WerfError as error:
            errors.append(str(error))
        if delete_hooks:
            self._delete([body for _, body in self._hooks], wait=True)
        for each in self._past:
            try:
                self._client.delete(each.secret())
            except WerfError as error:
                errors.append(f"uninstall: Failed to purge the release: {error}")
        if errors:
            told = "; ".join(errors)
            raise WerfError(f"uninstallation completed with {len(errors)} error(s): {told}")

    def _run_hooks(self, when: str) -> None:
        """Make the hooks of an occasion, those before away; each is waited for."""
        found = [
            (_operation(body, self._namespace, f"{when}-install"), path)
            for path, body in self._hooks
            if stage_of(body, "delete") == f"{when}-install"
        ]
        found.sort(key=lambda each: (each[0].weight, each[0].key[2]))
        for each, path in found:
            with doing(f"warning: Hook {when}-delete {path} failed"):
                self._execution.replace(each, _MANAGER)
        for each, _ in found:
            if each.passing:
                self._execution.delete(each)

    def _in_order(self, objects: Iterable[Object]) -> list[Object]:
        place = {kind: number for number, kind in enumerate(_ORDER)}
        return sorted(objects, key=lambda body: place.get(body["kind"], len(place)))

    def _delete(self, objects: list[Object], *, wait: bool) -> list[str]:
        """Delete objects, whatever of them is refused; why some are."""
        refused = []
        deleted = []
        for body in objects:
            if (body["metadata"].get("annotations") or {}).get(_KEPT) == "keep":
                continue
            each = _operation(body, self._namespace, "install")
            try:
                if wait and self._client.get(body) is None:
                    continue
                self._execution.delete(each)
                deleted.append(each)
            except WerfError as error:
                refused.append(str(error))
        if wait and not refused:
            names = ", ".join(
                f"{self._client.resource(each.body)['name']}/{each.key[2]}" for each in deleted
            )
            with frame(f"Waiting for resources elimination: {names}", shown=bool(names)):
                self._execution.wait_until_gone(deleted)
        return refused


def _operation(body: Object, namespace: str, stage: str) -> Operation:
    (key,) = manifests.keyed([body], namespace)
    return Operation(
        "recreate" if HOOK in body["metadata"].get("annotations", {}) else "delete",
        key,
        body,
        stage,
    )


def dismiss(wanted: Dismiss) -> None:
    """Delete a release with all that is in it."""
    if shutil.which("git") is None:
        why = 'exec: "git": executable file not found in $PATH'
        raise WerfError(f"component init error: unable to initialize git: {why}")
    with told(wanted.version), doing("release uninstall"):
        name = f'release "{wanted.release}"'
        placed = f'{name} (namespace: "{wanted.namespace}")'
        client = Client(wanted.namespace)
        if not _is_there(client, wanted.namespace):
            where = f'no release namespace "{wanted.namespace}" found'
            print(f"Skipped {name} uninstall: {where}")
            return
        print(f"Delete {placed}")
        with locking.locked(wanted.release, wanted.namespace, client, _lock(client)):
            past = release.history(wanted.release, client, newest=True)
            if not past:
                print(f"Skipped {placed} uninstall: no release found")
                return
            if wanted.version.startswith("v2"):
                found = _Uninstall(wanted.release, wanted.namespace, past, client)
                with doing("run uninstall command"):
                    found.run(wait=True, delete_hooks=True)
            else:
                _carry_out(wanted, past, client)
        print(f"Uninstalled {placed}")


def _is_there(client: Client, namespace: str) -> bool:
    what = f'get release namespace: get resource "Namespace/{namespace}"'
    with doing(f"check release namespace existence: {what}"):
        return client.get(core("Namespace", namespace)) is not None


def _lock(client: Client) -> Object:
    """The ConfigMap that werf locks with; it needs the right to get it."""
    lock = core("ConfigMap", locking.NAME)
    cached = f'get resource: get resource "ConfigMap/{locking.NAME}" from client cache'
    prepared = f"unable to prepare kubernetes cm/{locking.NAME}: {cached}"
    with doing(f"lock release: acquire release lock: {prepared}"):
        found = client.get(lock)
        if found is None:
            client.create(lock)
            found = client.get(lock)
    return found or lock


def _carry_out(wanted: Dismiss, past: list[Release], client: Client) -> None:
    """Delete what the last revision has, with its hooks, and all revisions."""
    last = past[-1]
    objects, *hooks = manifests.parse_each([last.manifest, *last.hooks])
    operations = [*_deletions(objects, wanted, client), *_hooks(hooks, wanted, client)]
    execution = Execution(client, wanted.version, wanted.namespace, wanted.timeout)
    release.update(last, "uninstalling", client)
    try:
        execution.run(operations)
    except WerfError as error:
        release.update(last, "failed", client)
        of = f'release "{wanted.release}" (namespace: "{wanted.namespace}")'
        cause = f"execute release delete plan: {error}"
        raise failure(f"uninstall failed for {of}", [cause]) from None
    for each in past:
        with doing("delete release"):
            client.delete(each.secret())
    done = execution.outcomes["completed"]
    names = sorted(manifests.human(each.key) for each in done if each.type == "delete")
    width = max(map(len, ["RESOURCE (→ABSENT)", *names]))
    print("┌ Progress status")
    print(f"│ {'RESOURCE (→ABSENT)':{width}}  STATE   INFO")
    for name in names:
        print(f"│ {name:{width}}  ABSENT")
    print("└ Progress status\n")
    print_operations("completed", sorted(map(str, done)))


def _deletions(objects: list[Object], wanted: Dismiss, client: Client) -> Iterable[Operation]:
    for key, body in manifests.keyed(objects, wanted.namespace).items():
        live = client.get(body)
        if live and (live["metadata"].get("annotations") or {}).get(_KEPT) != "keep":
            yield Operation("delete", key, body, "install")


def _hooks(hooks: list[list[Object]], wanted: Dismiss, client: Client) -> Iterable[Operation]:
    every = [body for bodies in hooks for body in bodies]
    for key, body in manifests.keyed(every, wanted.namespace).items():
        if stage := stage_of(body, "delete"):
            yield Operation("recreate" if client.get(body) else "create", key, body, stage)
