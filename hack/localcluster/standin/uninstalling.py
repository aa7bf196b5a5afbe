"""`helm uninstall` of werf 2, and `dismiss` of werf 3."""

from __future__ import annotations

import shutil
import signal
import sys
import time

from . import manifests, release, tools
from .client import Client
from .deploy import frame, print_operations, told
from .errors import WerfError, doing, failure
from .manifests import Object
from .settings import Dismiss, Uninstall

_ORDER = (
    *("Ingress", "Service", "CronJob", "Job", "StatefulSet", "Deployment", "ReplicaSet", "Pod"),
    *("DaemonSet", "RoleBinding", "Role", "ClusterRoleBinding", "ClusterRole"),
    *("CustomResourceDefinition", "PersistentVolumeClaim", "ConfigMap", "Secret"),
)
"""In which helm uninstalls; others after these."""
_POLL = 0.2


def uninstall(wanted: Uninstall) -> None:
    """Uninstall a release with helm; its words are werf's.

    The wait for the deletion ends neither by `--timeout` nor by a signal.

    Raises:
        WerfError: helm failed.
    """
    arguments = ["uninstall", wanted.release, "--namespace", wanted.namespace]
    if wanted.wait:
        arguments += ["--wait", "--timeout", "24h"]
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with release.locked(wanted.release, wanted.namespace):
        names = _names(wanted) if wanted.wait else ""
        with frame(f"Waiting for resources elimination: {names}", shown=bool(names)):
            ran = tools.run("helm", *arguments)
    # Not helm's own --ignore-not-found: that one takes a lack of rights for "not found".
    if wanted.ignore_not_found and ran.last_words.endswith("release: not found"):
        print(f'release "{wanted.release}" uninstalled')
        return
    sys.stdout.write(ran.output)
    if ran.code != 0:
        raise WerfError(ran.last_words)


def _names(wanted: Uninstall) -> str:
    """What of a release is there, as helm names it; empty where that can't be told."""
    client = Client(wanted.namespace)
    try:
        past = release.history(wanted.release, client)
        objects = manifests.parse(past[-1].manifest) if past else []
        there = [body for body in objects if client.get(body)]
    except WerfError:
        return ""
    place = {kind: number for number, kind in enumerate(_ORDER)}
    there.sort(key=lambda body: place.get(body["kind"], len(place)))
    return ", ".join(f"{client.resource(b)['name']}/{b['metadata']['name']}" for b in there)


def dismiss(wanted: Dismiss) -> None:
    """Delete a release with all that is in it.

    Raises:
        WerfError: a right is missing, or what is deleted doesn't go in time.
    """
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
        with release.locked(wanted.release, wanted.namespace):
            _lock(client)
            past = release.history(wanted.release, client, newest=True)
            if not past:
                print(f"Skipped {placed} uninstall: no release found")
                return
            deleted = _delete(wanted, manifests.parse(past[-1].manifest), client)
            for each in past:
                _forget(f"sh.helm.release.v1.{wanted.release}.v{each.revision}", client)
        print_operations("completed", [f"delete: {each}" for each in deleted])
        print(f"Uninstalled {placed}")


def _is_there(client: Client, namespace: str) -> bool:
    what = f'get release namespace: get resource "Namespace/{namespace}"'
    with doing(f"check release namespace existence: {what}"):
        return client.get(_core("Namespace", namespace)) is not None


def _lock(client: Client) -> None:
    """Have the ConfigMap that werf locks with; it needs the rights to get and to update it.

    The real one tries again and again for 53 s.
    """
    lock = _core("ConfigMap", release.LOCK)
    cached = f'get resource: get resource "ConfigMap/{release.LOCK}" from client cache'
    with doing("lock release: acquire release lock"):
        with doing(f"unable to prepare kubernetes cm/{release.LOCK}: {cached}"):
            found = client.get(lock)
        if found is None:
            client.create(lock)
            found = client.get(lock) or lock
        put = "unable to put store value by key lockgate.io/standin"
        with doing(f"acquire lock: {put}: cannot update /v1, Resource=configmaps"):
            client.update(found)


def _forget(name: str, client: Client) -> None:
    """Delete a revision's Secret; it is read and written before."""
    with doing("delete release"):
        if found := client.get(_core("Secret", name)):
            client.update(found)
            client.delete(found)


def _delete(wanted: Dismiss, objects: list[Object], client: Client) -> list[str]:
    """Delete objects and wait until they are gone; their names, sorted."""
    names = {}
    for body in objects:
        if (live := client.get(body)) is None:
            continue
        if live["metadata"].get("annotations", {}).get("helm.sh/resource-policy") != "keep":
            names[manifests.human(next(iter(manifests.keyed([body], wanted.namespace))))] = body
    for body in names.values():
        client.delete(body)
    ends = time.monotonic() + (wanted.timeout or float("inf"))
    left = dict(names)
    while left := {name: body for name, body in left.items() if client.get(body)}:
        if time.monotonic() > ends:
            name = min(left)
            of = f'release "{wanted.release}" (namespace: "{wanted.namespace}")'
            layers = "execute release delete plan: wait for operations completion"
            polled = f'poll resource "{wanted.namespace}/{name}"'
            done = f"execute operation: track resource absence: {polled}"
            cause = f"{layers}: {done}: timed out waiting for the condition"
            raise failure(f"uninstall failed for {of}", [cause])
        time.sleep(_POLL)
    width = max(map(len, ["RESOURCE (→ABSENT)", *names]))
    print("┌ Progress status")
    print(f"│ {'RESOURCE (→ABSENT)':{width}}  STATE   INFO")
    for name in sorted(names):
        print(f"│ {name:{width}}  ABSENT")
    print("└ Progress status\n")
    return sorted(names)


def _core(kind: str, name: str) -> Object:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}
