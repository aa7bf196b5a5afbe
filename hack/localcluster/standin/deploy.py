"""`bundle apply`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import manifests, registry, release, tools
from .errors import WerfError
from .manifests import Key, Object
from .settings import Deploy

VERSION_2 = "v2.67.0"
FIRST_APPLY_SECONDS = 4
"""What a first apply of the real werf takes on an idle machine: a shorter time-out ends it."""


@dataclass(frozen=True, slots=True)
class Change:
    """One object that a deploy creates, updates or deletes."""

    verb: str
    key: Key
    body: Object = field(repr=False)

    def __str__(self) -> str:
        return f"{self.verb}: {manifests.human(self.key)}"


def apply(deploy: Deploy) -> None:
    """Pull a bundle and deploy it.

    Raises:
        WerfError: something failed; from the deploy on there is a report as well.
    """
    name = f'release "{deploy.release}" (namespace: "{deploy.namespace}")'
    with _pulled(deploy) as helm, release.locked(deploy.release, deploy.namespace):
        release.make_namespace(deploy)
        past = release.history(deploy.release, deploy.namespace)
        past = release.forget_interrupted(deploy.release, deploy.namespace, past)
        old, new = past[-1] if past else None, helm.render()
        revision = old.revision + 1 if old else 1
        if old and old.same_as(new) and not release.drift(new.manifest, deploy.namespace):
            _report(deploy, revision, "skipped")
            print(f"Skipped {name}: cluster resources already as desired")
            return
        changes = _changes(old, new, deploy.namespace)
        if not past and deploy.timeout and deploy.timeout < FIRST_APPLY_SECONDS:
            _report(deploy, revision, "failed", {"canceled": changes})
            raise WerfError(f"release install: failed {name}: context deadline exceeded")
        ran = helm.install()
        if ran.code == 0:
            _report(deploy, revision, "deployed", {"completed": changes})
            print(f"Succeeded {name}")
            return
        operations = _sorted_out(changes, ran.error, deploy.namespace)
        words = ran.last_words
        good = [former for former in past if former.status == "deployed"]
        if deploy.auto_rollback and good:
            words = _roll_back(deploy, helm, good[-1], operations, ran)
        _report(deploy, revision, "failed", operations)
        raise WerfError(f"release install: failed {name}: execute release install plan: {words}")


def _roll_back(
    deploy: Deploy,
    helm: release.Helm,
    good: release.Release,
    operations: dict[str, list[Change]],
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
    operations["completed"] += [Change("update", key, body) for key, body in objects.items()]
    return ran.last_words


@contextmanager
def _pulled(deploy: Deploy) -> Iterator[release.Helm]:
    """Pull the bundle for as long as it is needed, and say so in werf's words."""
    with tempfile.TemporaryDirectory(prefix="werf-bundle-") as directory:
        root = Path(directory)
        digest, chart = registry.pull(deploy.repo, deploy.tag, deploy.access, root)
        print(f"{deploy.tag}: Pulling from {deploy.repo}")
        print(f"ref:     {deploy.repo}:{deploy.tag}")
        print(f"digest:  {digest.removeprefix('sha256:')}", flush=True)
        values = root / "service-values.json"
        values.write_text(json.dumps(_service_values(deploy)))
        yield release.Helm(deploy, chart, [values])


def _service_values(deploy: Deploy) -> dict[str, Any]:
    """The values that werf gives to every chart."""
    werf: dict[str, Any] = {"version": VERSION_2, "namespace": deploy.namespace}
    values: dict[str, Any] = {"werf": werf, "global": {"werf": werf}}
    if deploy.environment:
        werf["env"] = values["global"]["env"] = deploy.environment
    return values


def _changes(old: release.Release | None, new: release.Release, namespace: str) -> list[Change]:
    """What changes from one release to the next; all objects if nothing but the cluster did."""
    before = manifests.keyed(manifests.parse(old.manifest), namespace) if old else {}
    after = manifests.keyed(manifests.parse(new.manifest), namespace)
    created = [Change("create", key, body) for key, body in after.items() if key not in before]
    changed = [
        Change("update", key, body)
        for key, body in after.items()
        if key in before and (before[key] != body or before == after)
    ]
    deleted = [Change("delete", key, body) for key, body in before.items() if key not in after]
    return created + changed + deleted


def _sorted_out(changes: list[Change], error: str, namespace: str) -> dict[str, list[Change]]:
    """Tell which changes of a failed deploy were made, which failed, which weren't come to."""
    wanted = [change for change in changes if change.verb != "delete"]
    bodies = "\n---\n".join(json.dumps(change.body) for change in wanted)
    place = ("-n", namespace, "--ignore-not-found", "-o", "json", "-f", "-")
    read = tools.run("kubectl", "get", *place, stdin=bodies) if bodies else tools.Ran(0, "", "")
    found = [item for each in tools.json_stream(read.output) for item in each.get("items", [each])]
    live = manifests.keyed(found, namespace)
    result: dict[str, list[Change]] = {"completed": [], "failed": [], "canceled": []}
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
    result["canceled"] += [change for change in changes if change.verb == "delete"]
    return result


def _report(
    deploy: Deploy, revision: int, status: str, operations: dict[str, list[Change]] | None = None
) -> None:
    """Print what was done, and write the report file if one is wanted."""
    report: dict[str, Any] = {
        "version": 3,
        "release": deploy.release,
        "namespace": deploy.namespace,
        "revision": revision,
        "status": status,
    }
    for outcome, changes in (operations or {}).items():
        if changes:
            report[f"{outcome}Operations"] = sorted(map(str, changes))
            print(f"{outcome.capitalize()} operations")
            for text in report[f"{outcome}Operations"]:
                print(f"  {text[0].upper()}{text[1:]}")
    if deploy.report:
        deploy.report.write_text(json.dumps(report))
