"""The writes of one target object, its read after an unexpected state, and messages of errors.

Every response is requested as metadata only: a Secret's data isn't needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from copyrator.api import names
from copyrator.api.keys import CopyKey
from copyrator.api.reasons.rules import FailureReason
from copyrator.api.rule_spec import ConflictPolicy, ImmutablePolicy
from copyrator.api.schema import NOT_WHOLE
from copyrator.copies.context import CopyContext, KindView
from copyrator.copies.sources.bindings import CopyRequest
from copyrator.copies.targets.adoption import kept_extras
from copyrator.copies.targets.content import EXACT_KINDS, Place, carry_on, new_object, payload_of
from copyrator.copies.targets.ownership import ACCEPTED, claimed_fields, is_unchanged, merge_into
from copyrator.copies.targets.planning import Action, CopyDecision, Unmanaged
from copyrator.copies.targets.records import CopyRecord
from copyrator.kube import errors
from copyrator.kube.client.answers import METADATA_WATCH
from copyrator.kube.errors import NOT_HELD, ApiError, Permission, Refusal
from copyrator.kube.resources import Resource

REFUSED = (errors.Forbidden, errors.QuotaExceeded, errors.AdmissionDenied)
"""Errors that the API server returns before it checks whether the object exists.

The permission to grant a role's permissions, quotas and webhooks are checked first.
"""

_REASONS: tuple[tuple[type[ApiError], FailureReason], ...] = (
    (errors.QuotaExceeded, FailureReason.QUOTA_EXCEEDED),
    (errors.AdmissionDenied, FailureReason.ADMISSION_DENIED),
    (errors.Forbidden, FailureReason.FORBIDDEN),
    (errors.TooLarge, FailureReason.TOO_LARGE),
)


def is_namespace_closed(error: ApiError) -> bool:
    """Terminating or gone: skipped, and not counted as a failure."""
    return isinstance(error, errors.NamespaceTerminating) or (
        isinstance(error, errors.NotFound) and error.namespace_missing
    )


def is_place_gone(error: ApiError) -> bool:
    """Whether more is missing than the object: its namespace or its kind."""
    return isinstance(error, errors.NotFound) and (error.namespace_missing or error.kind_missing)


def reason_of(error: ApiError) -> FailureReason:
    """The reason for the status."""
    if isinstance(error, errors.Invalid) and error.immutable:
        return FailureReason.IMMUTABLE
    return next((word for kind, word in _REASONS if isinstance(error, kind)), FailureReason.ERROR)


NOT_A_COPY: Final = (
    "an object of that name that isn't a copy exists; delete it, or set spec.onConflict"
)
"""The remedy for an object that isn't ours."""


def unsealed_message(owner: str) -> str:
    """The remedy for an object with the marks of a rule (``namespace/name``) and no seal."""
    return (
        f"an object that carries the marks of the rule {owner} without a valid seal "
        "exists, with other content than the rule requires; delete it, or overwrite "
        f"it: copyrator reseal rule {owner}"
    )


def awaited_message(owner: str) -> str:
    """Why an object isn't overwritten that may be the source of a rule."""
    return (
        f"the rule {owner} copies the existing object, and its source isn't known yet: "
        "see that rule's status"
    )


def missing_bind(error: ApiError, winner: CopyRequest | None, resource: Resource) -> Refusal | None:
    """The missing permission to bind the role of a copied binding, where that failed the write."""
    if NOT_HELD not in error.message or resource.kind != "RoleBinding":
        return None
    if winner is None or winner.broken:
        return None
    role = winner.binding.content(winner.namespace).payload.get("roleRef") or {}
    permission = Permission(resource.group, f"{str(role.get('kind')).lower()}s", "bind")
    return Refusal(permission, winner.namespace.name, str(role.get("name")))


def message_of(error: ApiError, bind: Refusal | None) -> str:
    """The API server's error, and the remedy."""
    reason = reason_of(error)
    if reason is FailureReason.IMMUTABLE:
        return f"{error.message}; set spec.onImmutable: Recreate to delete and recreate it"
    if reason is FailureReason.FORBIDDEN and NOT_HELD in error.message:
        return _not_held(bind, error.message)
    return error.message


def _not_held(bind: Refusal | None, said: str) -> str:
    """The missing permission; the API server's own message lists every rule of the role."""
    if bind is None:
        missing = said.partition(f"{NOT_HELD}:")[2].split("\n")
        rules = [rule.strip() for rule in missing if rule.strip()]
        more = f" and {len(rules) - 1} more" if len(rules) > 1 else ""
        named = f": {rules[0]}{more}" if rules else ""
        return f"the operator can't grant permissions that it doesn't have{named}"
    verb = f'the verb "bind" on {bind.permission.resource} "{bind.name}"'
    if bind.permission.resource == "clusterroles":
        return f"needs rules.bindClusterRoles=[{bind.name}] (chart), which grants {verb}"
    return f"needs {verb}"


class NotAsWantedError(Exception):
    """An object with the rule's marks and no valid seal doesn't have the wanted content."""


class CopyWriter:
    """Reads and writes one target; results go into the view, or into ``unmanaged``."""

    def __init__(self, context: CopyContext, view: KindView, key: CopyKey) -> None:
        self.unmanaged: Unmanaged | None = None
        """The unmanaged object at the target, as the last read found it."""
        self.dropped: set[str] | None = None
        """Fields of what was written that the API server has dropped; None: nothing was."""
        self.sent = 0
        """Write requests."""
        self.written = ""
        """The resourceVersion that the last write returned."""
        self._context = context
        self._view = view
        self._key = key
        self._name = (key.namespace, key.name)
        self._whole: dict[str, Any] | None = None
        """What `read` returned, so that a write needn't read again."""
        self._exact = view.resource.kind in EXACT_KINDS

    async def read_metadata(self) -> Mapping[str, Any] | None:
        """Read the target's metadata; None where nothing exists.

        Raises:
            ApiError: it can't be read.
        """
        copies = self._view.copies
        try:
            found = await self._context.client.request(
                "GET", self._view.resource.path(*self._name), accept=METADATA_WATCH
            )
        except errors.NotFound:
            found = None
        record = self._view.reader(found) if found else None
        self.unmanaged = None
        self._whole = None
        if record is not None and (record.owner or record.marks):
            copies.wrote(self._name, record)
            if found and not record.owner:
                self.unmanaged = _unmanaged(found["metadata"])
            return found["metadata"] if found else None
        if known := copies.get(self._name):
            copies.deleted(self._name, known.uid)
        if found:
            self.unmanaged = _unmanaged(found["metadata"])
        return found["metadata"] if found else None

    async def read(self) -> dict[str, Any]:
        """Read the whole object, and keep the version that was read.

        Raises:
            NotFound: it doesn't exist.
            ApiError: it can't be read.
        """
        live: dict[str, Any] = await self._context.client.get(self._view.resource, *self._name)
        self._whole = live
        record = self._view.reader(live)
        if record.owner or record.marks:
            known = self._view.copies.get(self._name)
            if known is None or known.uid != record.uid or record.is_newer_than(known):
                self._view.copies.wrote(self._name, record)
        return live

    async def write(self, plan: CopyDecision[CopyRequest]) -> None:
        """Carry out a plan.

        Raises:
            AlreadyExists, ConflictError, NotFound: another object than planned exists.
            NotAsWantedError: it must not be resealed.
            ApiError: it can't be written.
        """
        record = self._view.copies.get(self._name)
        match plan.act:
            case Action.CREATE:
                assert plan.winner is not None
                answer = await self._send("POST", self._body(plan.winner))
                self._wrote(plan.winner, self._view.reader(answer), "create")
            case Action.REPLACE:
                assert plan.winner is not None
                assert record is not None
                await self._replace(plan.winner, record)
            case Action.ADOPT:
                assert plan.winner is not None
                await self._adopt(plan.winner)
            case Action.RESEAL:
                assert plan.winner is not None
                await self._reseal(plan.winner)
            case Action.DELETE:
                assert record is not None
                await self._delete(record.uid, record.resource_version)
            case Action.RELEASE:
                assert record is not None
                await self._release(record)

    def _body(self, winner: CopyRequest) -> dict[str, Any]:
        assert self._context.sealer is not None
        content = winner.binding.content(winner.namespace)
        place = Place(self._key.kind, self._key.namespace, self._key.name)
        return new_object(content, place, winner.owner, self._context.sealer)

    def _carried(self, winner: CopyRequest, seen: CopyRecord | Unmanaged) -> dict[str, Any]:
        """The body that replaces an object of which we own the whole content."""
        version = seen.resource_version
        return carry_on(self._body(winner), seen.extras, uid=seen.uid, resource_version=version)

    async def _replace(self, winner: CopyRequest, record: CopyRecord) -> None:
        if self._exact:
            body = self._carried(winner, record)
        else:
            live = await self._live(record.uid)
            body = self._merged(winner, live)
            if is_unchanged(live, body):  # others wrote it, too, and it is right
                self._settle(winner, self._view.reader(live))
                return
        whole, self._whole = self._whole, None
        try:
            answer = await self._send("PUT", body)
        except errors.Invalid as error:
            if not error.immutable or not _may_recreate(winner):
                raise
            await self._delete(record.uid, record.resource_version)
            raise errors.ConflictError("deleted, to be recreated") from error
        found = self._view.reader(answer)
        if whole and found.resource_version == whole["metadata"]["resourceVersion"]:
            # The server's own form of our content: nothing changed.
            winner.desired.equal = winner.binding.compiled.sealer.digest(payload_of(whole))
        repeated = self._context.fights.is_repeated(self._key)
        if self._exact and _is_disturbed(winner, found) and not repeated:
            # The live object was right already, but others are recorded as its writers.
            metadata = answer["metadata"]
            body["metadata"]["resourceVersion"] = metadata["resourceVersion"]
            self._claim(body, winner, metadata)
            found = self._view.reader(await self._send("PUT", body))
        self._wrote(winner, found, "update")

    async def _adopt(self, winner: CopyRequest) -> None:
        unmanaged = self.unmanaged
        assert unmanaged is not None
        if self._exact:
            body = self._carried(winner, unmanaged)
            self._claim(body, winner, unmanaged.metadata)
        else:
            body = self._merged(winner, await self._live(unmanaged.uid))
        try:
            answer = await self._send("PUT", body)
        except errors.Invalid as error:
            overwrites = winner.on_conflict is ConflictPolicy.OVERWRITE and _may_recreate(winner)
            if not error.immutable or not overwrites or unmanaged.metadata.get("deletionTimestamp"):
                raise
            await self._delete(unmanaged.uid, unmanaged.resource_version)
            raise errors.ConflictError("deleted, to be recreated") from error
        self._wrote(winner, self._view.reader(answer), "adopt")

    async def _reseal(self, winner: CopyRequest) -> None:
        """Replace an object with the rule's marks by the wanted one, with a seal, in one write."""
        live = await self.read()
        seen = self._view.reader(live)
        if seen.owner or seen.marks != winner.owner or seen.deleting:
            raise errors.ConflictError("another object exists now")
        if reason := live["metadata"].get(NOT_WHOLE):
            raise errors.ApiError(f"the existing object can't be compared: {reason}")
        overwrites = (
            winner.rule.reseal is not None
            or winner.on_conflict is ConflictPolicy.OVERWRITE
            or winner.adopts(_unmanaged(live["metadata"]))
        )
        if not overwrites and not winner.is_held_by(live):
            raise NotAsWantedError
        self._whole = None
        if self._exact:
            body = self._carried(winner, seen)
            self._claim(body, winner, live["metadata"])
        else:
            body = self._merged(winner, live)
        self._wrote(winner, self._view.reader(await self._send("PUT", body)), "reseal")

    async def _live(self, uid: str) -> dict[str, Any]:
        """The whole object of a kind that others may write to as well."""
        live = self._whole or await self._context.client.get(self._view.resource, *self._name)
        if live["metadata"]["uid"] != uid:
            raise errors.ConflictError("another object exists now")
        if reason := live["metadata"].get(NOT_WHOLE):
            raise errors.ApiError(f"the existing object can't be merged with: {reason}")
        return live

    def _merged(self, winner: CopyRequest, live: dict[str, Any]) -> dict[str, Any]:
        """The body that replaces a live object, including the fields that others own."""
        seen = self._view.reader(live)
        body = merge_into(live, self._body(winner), seen.shape)
        extras = seen.extras if seen.owner or seen.marks else _unmanaged(live["metadata"]).extras
        return carry_on(body, extras, uid=seen.uid, resource_version=seen.resource_version)

    def _claim(
        self, body: dict[str, Any], winner: CopyRequest, metadata: Mapping[str, Any]
    ) -> None:
        managed = metadata.get("managedFields")
        body["metadata"]["managedFields"] = claimed_fields(managed, self._body(winner))

    async def _send(self, method: str, body: Mapping[str, Any]) -> dict[str, Any]:
        self.sent += 1
        self._view.writing.setdefault(self._name, False)
        name = None if method == "POST" else self._key.name
        path = self._view.resource.path(self._key.namespace, name)
        dropped: set[str] = set()
        answer: dict[str, Any] = await self._context.client.request(
            method, path, body=body, accept=METADATA_WATCH, dropped=dropped
        )
        self.dropped = dropped
        return answer

    def _wrote(self, winner: CopyRequest, record: CopyRecord, action: str) -> None:
        self._settle(winner, record)
        self._count(action)

    def _settle(self, winner: CopyRequest, record: CopyRecord) -> None:
        """Cache the copy as it is now: right."""
        if _is_disturbed(winner, record):
            record.shape = ACCEPTED
        self.unmanaged = None
        self.written = record.resource_version
        self._view.copies.wrote(self._name, record)
        self._context.drift.wrote(self._key, self.written)

    async def _delete(self, uid: str, resource_version: str) -> None:
        self.sent += 1
        try:
            answer = await self._context.client.delete(
                self._view.resource,
                *self._name,
                uid=uid,
                resource_version=resource_version,
            )
        except errors.NotFound:
            answer = {}
        if (answer.get("metadata") or {}).get("deletionTimestamp"):  # a finalizer holds it
            self._view.copies.wrote(self._name, self._view.reader(answer))
        else:
            self._view.copies.deleted(self._name, uid)
        self._count("delete")

    async def _release(self, record: CopyRecord) -> None:
        """Leave the object and remove our marks, so that no rule owns it.

        A later rule of the same name would otherwise own it, and delete it where it doesn't want
        it.
        """
        marks = (names.ANN_RULE, names.ANN_SOURCE, names.ANN_HASH, names.ANN_REFERENCES)
        metadata = {
            "uid": record.uid,
            "resourceVersion": record.resource_version,
            "labels": {names.LABEL_MANAGED_BY: None},
            "annotations": dict.fromkeys(marks),
        }
        await self._context.client.patch(self._view.resource, *self._name, {"metadata": metadata})
        self._view.copies.deleted(self._name, record.uid)
        self._count("release")

    def _count(self, action: str) -> None:
        self._context.metrics.copy_writes.labels(action, self._key.kind).inc()


def _is_disturbed(winner: CopyRequest, record: CopyRecord) -> bool:
    """Whether, by managedFields, another client appears to have changed our own write."""
    return not winner.is_old(record) and not winner.is_right(record)


def _may_recreate(winner: CopyRequest) -> bool:
    return winner.binding.compiled.spec.on_immutable is ImmutablePolicy.RECREATE


def _unmanaged(metadata: Mapping[str, Any]) -> Unmanaged:
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    return Unmanaged(
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        labels=labels,
        annotations=annotations,
        metadata=metadata,
        extras=kept_extras(metadata),
    )
