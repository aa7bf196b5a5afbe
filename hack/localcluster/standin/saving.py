"""Plans that werf 3 saves, in the form that was recorded: gzip of JSON that holds JSON.

What isn't known of it: the words where it is too old or can't be read, and how it is encrypted.
"""

from __future__ import annotations

import gzip
import json
import secrets
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from .errors import WerfError
from .manifests import Key, Object
from .planning import Operation, Plan
from .release import Release
from .settings import Deploy

_VALID = timedelta(hours=2)
_NONE = "none"


def save(
    plan: Plan, past: list[Release], deploy: Deploy, added: Mapping[str, Mapping[str, str]]
) -> None:
    """Save a plan; of a longer file that is there the end stays, as with the real one."""
    held = json.dumps(_data(plan, deploy, added), separators=(",", ":"), sort_keys=True)
    if deploy.secret_key:
        held = secrets.token_hex(16) + _mixed(held, deploy.secret_key)
    told = {
        "apiVersion": "v2",
        "dataRaw": held,
        "deployType": "Upgrade" if any(one.status == "deployed" for one in past) else "Install",
        "encrypted": bool(deploy.secret_key),
        "release": {
            "name": deploy.release,
            "namespace": deploy.namespace,
            "revision": plan.new.revision,
        },
        "timestamp": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
    }
    assert deploy.save_plan
    packed = gzip.compress((json.dumps(told, indent=2) + "\n").encode(), mtime=0)
    deploy.save_plan.touch()
    with deploy.save_plan.open("r+b") as file:
        file.write(packed)


@dataclass(frozen=True, slots=True)
class SavedPlan:
    """A plan that was saved.

    Attributes:
        data: what its JSON holds.
        added: annotations and labels that every object gets.
    """

    data: Object
    added: Mapping[str, Mapping[str, str]]

    def plan(self, past: list[Release]) -> Plan:
        """The plan, if no other revision was made since.

        Raises:
            WerfError: one was.
        """
        new = Release.of(self.data["release"]["release"])
        got = past[-1].revision + 1 if past else 1
        if new.revision != got:
            raise WerfError(
                f"plan artifact release revision mismatch: expected {new.revision}, got {got}"
            )
        every = list(_operations(self.data))
        same = [one for one in every if not one.type]
        infos = self.data["installableResourceInfos"]
        waits = {_key(one) for one in infos if one["mustTrackReadiness"]}
        superseded = [one for one in self.data["releaseInfos"] if one["must"] == "supersede"]
        return Plan(
            new=new,
            superseded=[Release.of(one["release"]["release"]) for one in superseded],
            up_to_date=not self.data["releaseInfos"],
            operations=[one for one in every if one.type],
            waited=[one for one in same if one.key in waits],
            others=[one for one in same if one.key not in waits],
        )


def load(path: Path, deploy: Deploy) -> SavedPlan:
    """Read a saved plan.

    Raises:
        WerfError: it can't be read, or is older than two hours.
    """
    try:
        told = json.loads(gzip.decompress(path.read_bytes()))
        held = told["dataRaw"]
        if told["encrypted"]:
            held = _mixed(held[32:], deploy.secret_key, back=True)
        data = json.loads(held)
        made = datetime.fromisoformat(told["timestamp"])
    except (OSError, EOFError, zlib.error, ValueError, KeyError) as error:
        raise WerfError(f"read plan artifact {path}: {error}") from None
    if datetime.now(UTC) - made > _VALID:
        raise WerfError(f"plan artifact {path} of {told['timestamp']} has expired")
    options = data["options"]
    added = {"annotations": options["extraAnnotations"], "labels": options["extraLabels"]}
    return SavedPlan(data, added)


def _mixed(text: str, key: str, *, back: bool = False) -> str:
    """No encryption, but nothing that can be read."""
    raw = bytes.fromhex(text) if back else text.encode()
    mixed = bytes(one ^ ord(key[index % len(key)]) for index, one in enumerate(raw))
    return mixed.decode() if back else mixed.hex()


def _data(plan: Plan, deploy: Deploy, added: Mapping[str, Mapping[str, str]]) -> Object:
    every = [*plan.operations, *plan.waited, *plan.others]
    kept = [one for one in every if one.type != "delete"]
    kept.sort(key=lambda one: one.key)
    waits = {one.key for one in (*plan.operations, *plan.waited)}
    must = "upgrade" if plan.superseded else "install"
    infos = [
        {"release": _stored(plan.new), "must": must, "mustFailOnFailedDeploy": True},
        *({"release": _stored(one), "must": "supersede"} for one in plan.superseded),
    ]
    return {
        "options": {
            "extraAnnotations": dict(added["annotations"]),
            "extraLabels": dict(added["labels"]),
            "releaseHistoryLimit": deploy.history,
        },
        "changes": [_change(one) for one in sorted(plan.operations, key=lambda one: one.key)],
        "plan": {"operations": sorted(f"{one.type}/1/0/{one}" for one in plan.operations)},
        "release": _stored(plan.new),
        "installableResourceInfos": [_info(one, is_waited=one.key in waits) for one in kept],
        "releaseInfos": [] if plan.up_to_date else infos,
    }


def _stored(release: Release) -> Object:
    """A release without the times of its rendering, as the real one has them."""
    info = {key: value for key, value in release.stored["info"].items() if key != "last_deployed"}
    info.pop("first_deployed", None)
    chart = {**release.stored.get("chart", {})}
    for part in ("templates", "files"):
        chart[part] = [
            {key: value for key, value in one.items() if key != "modtime"}
            for one in chart.get(part) or []
        ]
    chart.pop("modtime", None)
    return {"version": "v1", "release": {**release.stored, "info": info, "chart": chart}}


def _meta(operation: Operation) -> Object:
    kind, namespace, name = operation.key
    group, _, version = operation.body["apiVersion"].rpartition("/")
    of = {"Group": group, "Version": version, "Kind": kind}
    return {"name": name, "namespace": namespace, "groupVersionKind": of}


def _change(operation: Operation) -> Object:
    return {
        "type": operation.type,
        "reason": operation.reason,
        "resourceMeta": _meta(operation),
        "before": operation.before,
        "after": operation.after,
    }


def _info(operation: Operation, *, is_waited: bool) -> Object:
    return {
        "resourceMeta": _meta(operation),
        "localResource": operation.body,
        "getResult": operation.live,
        "mustInstall": operation.type or _NONE,
        "mustTrackReadiness": is_waited,
        "stage": operation.stage,
    }


def _key(held: Mapping[str, Any]) -> Key:
    meta = held["resourceMeta"]
    return meta["groupVersionKind"]["Kind"], meta["namespace"], meta["name"]


def _operations(data: Object) -> Iterator[Operation]:
    for one in data["installableResourceInfos"]:
        kind = "" if one["mustInstall"] == _NONE else one["mustInstall"]
        yield Operation(kind, _key(one), one["localResource"], one["stage"])
    for one in data["changes"]:
        if one["type"] == "delete":
            yield Operation("delete", _key(one), one["before"], "pre-pre-uninstall")
