"""What a deploy would do: each object beside what a server-side apply would make of it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from . import manifests, rendering
from .client import FIELD_MANAGER, Client, RefusedError
from .errors import WerfError, doing, failure
from .manifests import HOOK, Key, Object, find_annotation
from .release import Helm, Release
from .settings import Deploy

TYPES = ("create", "recreate", "update", "apply", "delete")
"""In the order of the text; an `apply` is a blind one."""
STAGES = ("pre-pre-uninstall", "pre-pre-install", "pre-install", "install", "post-install")
"""In the order in which they are done."""
_DUPLICATES = (
    "locally validate resources: validate for no duplicated resources: duplicated resources found"
)
_ADOPTED = "remotely validate resources: validate adoptable resources"
_MANAGED_BY = "app.kubernetes.io/managed-by"
_RELEASE = "meta.helm.sh/release-name"
_RELEASE_NAMESPACE = "meta.helm.sh/release-namespace"
_SET_BY_SERVER = (
    *("creationTimestamp", "finalizers", "generation", "managedFields"),
    *("resourceVersion", "selfLink", "uid"),
)
_INSIGNIFICANT = re.compile(r"helm\.sh/.|.*werf\.io/.")
"""Annotations that don't count."""


@dataclass(frozen=True, slots=True)
class Operation:
    """What a deploy does to one object.

    Attributes:
        type: one of TYPES; empty for an object that stays as it is.
        key: names the object.
        body: as the chart has it; of an object to be deleted, as the cluster has it.
        stage: werf's stage that it belongs to.
        before: the live object, for an update or a delete.
        after: what becomes of it; None for a delete.
        reason: why an apply is blind.
        live: the object as the cluster has it, also where it stays as it is.
    """

    type: str
    key: Key
    body: Object = field(repr=False)
    stage: str = "install"
    before: Object | None = field(default=None, repr=False)
    after: Object | None = field(default=None, repr=False)
    reason: str = ""
    live: Object | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{self.type}: {manifests.human(self.key)}"

    @property
    def is_hook(self) -> bool:
        """Whether the object is deployed by each release anew, before or after the others."""
        return HOOK in _annotations(self.body)

    @property
    def stage_number(self) -> int:
        """The place of its stage."""
        return STAGES.index(self.stage)

    def place(self) -> tuple[int, int]:
        """When it is done: by the stage, and by the weight in that."""
        return self.stage_number, 0 if self.type == "delete" else self.weight

    @property
    def weight(self) -> int:
        """The place in its stage."""
        return int(find_annotation(_annotations(self.body), "helm.sh/hook-weight") or 0)

    @property
    def passing(self) -> bool:
        """Whether the object is deleted once it has succeeded."""
        return self._goes("hook-succeeded")

    @property
    def goes_if_failed(self) -> bool:
        """Whether the object is deleted if it has failed."""
        return self._goes("hook-failed")

    def _goes(self, when: str) -> bool:
        policies = find_annotation(_annotations(self.body), "helm.sh/hook-delete-policy") or ""
        return self.is_hook and when in re.split(r"\s*,\s*", policies)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a deploy of a release would do.

    Attributes:
        new: the revision to be made.
        superseded: those that are deployed now.
        up_to_date: the last release is the same as this one.
        operations: in the order of TYPES.
        waited: what stays as it is, but may not have been ready when the last deploy failed.
        others: what else stays as it is.
    """

    new: Release
    superseded: list[Release]
    up_to_date: bool
    operations: list[Operation]
    waited: list[Operation]
    others: list[Operation]

    @property
    def useless(self) -> bool:
        """Whether there is nothing to do."""
        return self.up_to_date and not self.operations and not self.waited


class Planner:
    """Plans one deploy."""

    def __init__(
        self, deploy: Deploy, client: Client, added: Mapping[str, Mapping[str, str]]
    ) -> None:
        self._deploy = deploy
        self._client = client
        self._added = added
        self._others: list[str] = []
        self._refusals: Mapping[Key, str] = {}
        self._standalone: Mapping[Key, Object] = {}
        self._owner = {_RELEASE: deploy.release, _RELEASE_NAMESPACE: deploy.namespace}

    def plan(self, helm: Helm, past: list[Release]) -> Plan:
        """Compare a chart with the cluster.

        Nothing is written but managed fields: see `take_over`.
        """
        found = rendering.render_release(self._deploy, helm, past)
        self._standalone = manifests.keyed(found.standalone, self._deploy.namespace)
        objects = [*found.standalone, *found.objects]
        upgrade = any(each.status == "deployed" for each in past)
        occasion = "upgrade" if upgrade else "install"
        return self._plan(found.new, objects, found.former, past, occasion)

    def plan_rollback(
        self, to: Release, failed: Release, past: list[Release], refusals: Mapping[Key, str]
    ) -> Plan:
        """Compare the content of an earlier revision with the cluster.

        Args:
            to: that revision.
            failed: the last one.
            past: all, with that one.
            refusals: why objects couldn't be written; werf takes that for what is there.
        """
        self._refusals = refusals
        new = to.again(failed.revision + 1, self._deploy.version)
        *found, former = manifests.parse_each([new.manifest, *new.hooks, failed.manifest])
        objects = [body for bodies in found for body in bodies]
        return self._plan(new, objects, former, [*past[:-1], failed], "rollback")

    def _plan(
        self,
        new: Release,
        objects: list[Object],
        former: list[Object],
        past: list[Release],
        occasion: str,
    ) -> Plan:
        wanted = manifests.keyed(objects, self._deploy.namespace)
        if twice := _twice(objects, self._deploy.namespace):
            raise WerfError(f"{_DUPLICATES}: {', '.join(twice)}")
        if self._deploy.check_schemas:
            check_schemas(wanted, self._client)
        with doing("build resource infos"):
            found = [self._compare(key, body, occasion) for key, body in wanted.items()]
            known = [operation for operation in found if operation]
            known += self._deleted(wanted, former)
        if self._others:
            raise failure(_ADOPTED, self._others)
        changed = [operation for operation in known if operation.type]
        same = [operation for operation in known if not operation.type]
        failed = bool(past) and past[-1].status == "failed"
        return Plan(
            new=new,
            superseded=[each for each in past if each.status == "deployed"],
            up_to_date=bool(past) and past[-1].same_as(new),
            operations=sorted(changed, key=lambda operation: TYPES.index(operation.type)),
            waited=same if failed else [],
            others=[] if failed else same,
        )

    def _compare(self, key: Key, body: Object, occasion: str) -> Operation | None:
        """What has to be done about an object of the chart; None for a hook of other occasions."""
        stage, wanted = stage_of(body, occasion), self._marked(key, body)
        if stage is None:
            return None
        with doing("wait for resource pool: build installable resource info"):
            live = self._read(key, wanted)
            if live is None:
                return Operation("create", key, wanted, stage, after=wanted)
            if self._is_owned(key, body) and (wants := self._unlike_ours(live)):
                self._others.append(f'adopt "{manifests.titled(key)}": {wants}')
                return None
            with doing(f'fix managed fields for resource "{manifests.titled(key)}"'):
                live = take_over(self._client, live)
        return self._change(Operation("", key, wanted, stage, live=live), live)

    def _change(self, found: Operation, live: Object) -> Operation:
        """What has to be done about an object that is there, by a dry run."""
        key, wanted = found.key, found.body
        after, refusal = wanted, None
        try:
            after = self._client.apply(wanted, dry=True)
        except RefusedError as error:
            refusal = error
        if found.is_hook:
            return replace(found, type="recreate", after=wanted)
        if refusal:
            if "field is immutable" in str(refusal):
                raise self._immutable(key, refusal)
            return replace(found, type="apply", after=wanted, reason=str(refusal))
        if significant(live) == significant(after):
            return found
        return replace(found, type="update", before=live, after=after)

    def _immutable(self, key: Key, error: RefusedError) -> WerfError:
        name = f'resource "{manifests.titled(key)}"'
        why = f"immutable fields change in {name}, but recreation is not requested"
        asked = f"server-side dry-run apply {name}"
        if self._deploy.version != "v2.67.0":
            asked += ": server-side apply"
        layers = "wait for resource pool: build installable resource info"
        return WerfError(f"{layers}: determine install type for {name}: {why}: {asked}: {error}")

    def _deleted(self, wanted: dict[Key, Object], former: list[Object]) -> Iterator[Operation]:
        """What the release before had, the chart has no more, and is there."""
        for key, body in manifests.keyed(former, self._deploy.namespace).items():
            with doing("wait for prev release resource pool: build deletable resource info"):
                live = None if key in wanted else self._read(key, body)
            if live is None or _annotations(live).get("helm.sh/resource-policy") == "keep":
                continue
            if not self._unlike_ours(live):
                yield Operation("delete", key, live, "pre-pre-uninstall", before=live)

    def _unlike_ours(self, live: Object) -> str:
        """Which annotations a live object lacks to be the release's, in nelm's words."""
        has = _annotations(live)
        return ", ".join(
            f'annotation "{name}={has[name]}" must have value "{value}"'
            if name in has
            else f'annotation "{name}" not found, must be set to "{value}"'
            for name, value in self._owner.items()
            if has.get(name) != value
        )

    def _read(self, key: Key, body: Object) -> Object | None:
        get = f'get resource "{manifests.titled(key)}"'
        if key in self._refusals:
            raise WerfError(f"{get}: {get} from client cache: {self._refusals[key]}")
        with doing(f"{get}: {get}"):
            return self._client.get(body)

    def _is_owned(self, key: Key, body: Object) -> bool:
        """Whether an object belongs to the release: no hook does, and nothing of crds/."""
        return HOOK not in _annotations(body) and key not in self._standalone

    def _marked(self, key: Key, body: Object) -> Object:
        """An object with what makes it one of the release's."""
        metadata = body["metadata"]
        owner = self._owner if self._is_owned(key, body) else {}
        labels = {**(metadata.get("labels") or {}), **({_MANAGED_BY: "Helm"} if owner else {})}
        marks = {
            "labels": {**labels, **self._added["labels"]},
            "annotations": {**_annotations(body), **self._added["annotations"], **owner},
        }
        return {**body, "metadata": {**metadata, **marks}}


def significant(body: Object, *, more: bool = False) -> Object:
    """An object without what the API server sets.

    Args:
        body: the object.
        more: with annotations that say how to deploy it, and managed fields without their times.
    """
    metadata = {k: v for k, v in body["metadata"].items() if k not in _SET_BY_SERVER}
    kept = _annotations(body)
    if more and (fields := body["metadata"].get("managedFields")):
        metadata["managedFields"] = [_without(entry) for entry in fields]
    metadata["annotations"] = {k: v for k, v in kept.items() if more or not _INSIGNIFICANT.match(k)}
    return {**{k: v for k, v in body.items() if k != "status"}, "metadata": metadata}


def _without(fields: Object) -> Object:
    """Managed fields without times, and without the mark of an owned map, as werf has none."""
    inner = {k: v for k, v in fields.items() if k not in ("time", ".")}
    return {k: _without(v) if isinstance(v, dict) else v for k, v in inner.items()}


def _twice(objects: list[Object], namespace: str) -> list[str]:
    keys = [next(iter(manifests.keyed([body], namespace))) for body in objects]
    return sorted({manifests.titled(key) for key in keys if keys.count(key) > 1})


def stage_of(body: Object, occasion: str) -> str | None:
    """When an object is deployed; None for never.

    Args:
        body: the object.
        occasion: install, upgrade, rollback or delete.
    """
    if body["kind"] == "CustomResourceDefinition":
        return "pre-pre-install"
    events = _annotations(body).get(HOOK)
    if events is None:
        return "install"
    for when in ("pre", "post"):
        if f"{when}-{occasion}" in re.split(r"\s*,\s*", events):
            return f"{when}-install"
    return None


def _annotations(body: Object) -> dict[str, str]:
    return body["metadata"].get("annotations") or {}


_OTHERS = ("kubectl-edit", "werf")


def take_over(client: Client, live: Object) -> Object:
    """Make werf the owner of an object's fields; as it is afterwards.

    werf deploys by server-side apply: a field that the chart has no more goes away only if werf's
    manager owns it. So werf takes over what `kubectl edit`, helm and older werfs wrote, by a real
    write, even when it only plans.
    """
    entries = live["metadata"].get("managedFields", [])
    taken = [entry for entry in entries if _is_taken(entry)]
    if not taken:
        return live
    kept = [entry for entry in entries if not _is_taken(entry) and not _is_werfs(entry)]
    fields: dict[str, Any] = {}
    for entry in entries:
        if _is_taken(entry) or _is_werfs(entry):
            _merge(fields, entry["fieldsV1"])
    ours = {
        "manager": FIELD_MANAGER,
        "operation": "Apply",
        "apiVersion": live["apiVersion"],
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    with doing("patch managed fields"):
        return client.merge(live, {"metadata": {"managedFields": [*kept, ours]}})


def _is_werfs(entry: Object) -> bool:
    named = (entry["manager"], entry["operation"], entry.get("subresource"))
    return named == (FIELD_MANAGER, "Apply", None)


def _is_taken(entry: Object) -> bool:
    ours = (entry["manager"], entry["operation"]) == (FIELD_MANAGER, "Update")
    taken = ours or entry["manager"].startswith(_OTHERS)
    return taken and "subresource" not in entry


def _merge(into: dict[str, Any], fields: dict[str, Any]) -> None:
    for name, inner in fields.items():
        _merge(into.setdefault(name, {}), inner)


_WORDS = {dict: "object", list: "array", str: "string", bool: "boolean", int: "number"}
_GROUPS = ("", "apps", "autoscaling", "batch", "policy")
"""Kubernetes' API groups without a dot."""


def check_schemas(wanted: Mapping[Key, Object], client: Client) -> None:
    """Compare objects with their schemas, as werf 3 does before it asks for anything.

    werf has the schemas of Kubernetes built in; here they are the API server's own, and only types
    and required fields are checked, as kubeconform does it without `strict`. Objects without a
    schema are right.

    Raises:
        WerfError: with a line for each fault.
    """
    found: dict[str, Object] = {}
    faults = []
    for key, body in wanted.items():
        group, _, version = body["apiVersion"].rpartition("/")
        if group not in _GROUPS and not group.endswith(".k8s.io"):
            continue
        if body["apiVersion"] not in found:
            found[body["apiVersion"]] = client.schemas(body["apiVersion"])
        schemas = found[body["apiVersion"]]
        kind = {"group": group, "kind": body["kind"], "version": version}
        own = (s for s in schemas.values() if kind in s.get("x-kubernetes-group-version-kind", []))
        if schema := next(own, None):
            title = manifests.titled(key)
            faults += [f"validate {title}: {fault}" for fault in _faults(body, schema, schemas)]
    if faults:
        raise failure("locally validate resources: validate resource schemas", faults)


def _faults(
    value: Any, schema: Object, schemas: Object, path: str = "", optional: str = ""
) -> Iterator[str]:
    """Yield what of a value isn't as its schema says, as `/PATH: FAULT`.

    Built-in schemas allow a null for whatever isn't required; `optional` says so.
    """
    while part := next(iter(schema.get("allOf", [])), schema if "$ref" in schema else None):
        schema = schemas[part["$ref"].rpartition("/")[2]]
    wanted = schema.get("type")
    if value is None or wanted is None or "oneOf" in schema:  # werf leaves nulls out
        return
    got = _WORDS.get(type(value), "number")
    if got != ("number" if wanted == "integer" else wanted):
        yield f"{path}: got {got}, want {optional}{wanted}"
    elif isinstance(value, dict):
        if missing := [f"'{name}'" for name in schema.get("required", []) if name not in value]:
            word = "property" if len(missing) == 1 else "properties"
            yield f"{path}: missing {word} {', '.join(missing)}"
        known = schema.get("properties", {})
        for name, inner in value.items():
            of = known.get(name, schema.get("additionalProperties"))
            if isinstance(of, dict):
                nullable = "" if name in schema.get("required", []) else "null or "
                yield from _faults(inner, of, schemas, f"{path}/{name}", nullable)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            items = schema.get("items", {})
            yield from _faults(inner, items, schemas, f"{path}/{number}", "null or ")
