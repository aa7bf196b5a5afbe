"""What the API server lets the pods of a guarded Job write, and what it refused. Pure.

A list is text of a ConfigMap.

The policy of the chart (``templates/guard.yaml``; docs/facts/guard.md) refuses every other write. A
line is ``VERBS/GROUP/KIND/NAMESPACE/NAME``: no namespace and no name has a slash, so none reads as
another. NAMESPACE is empty for the release's own and for objects in none, as in a plan. VERBS is
``CU`` (CREATE and UPDATE), ``CUD`` or ``D``; of what may run as the Job's account there is a second
line with ``A``. A line ``D//Secret//sh.helm.release.v1.NAME.v/`` is of all revisions of a release.

The API server writes ``KIND "NAME" is forbidden: ValidatingAdmissionPolicy 'P' with binding 'B'
denied request: MESSAGE``, which werf quotes in its last error. A chart may print such words too:
then its own deploy counts as refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any, Final, NamedTuple

from copyrator.api import names
from copyrator.api.keys import ObjectName, ReleaseKey
from copyrator.bundles.jobs.rights import LOCK, ServiceAccount
from copyrator.bundles.plans.operations import Operation, OperationType

GUARDED_NAME_LENGTH: Final = 57
"""Of a guarded Job: the names of its pods begin with at most 58 characters of it, and a dash."""

LIST_BYTES: Final = 1_040_000
"""Bytes of a list: a ConfigMap may have at most 1 MiB of data."""

_LATER: Final = 20
"""Revisions after the one that is known to be deployed that may be deployed."""

NOT_APPROVED: Final = "not approved: "
NOT_AS_ACCOUNT: Final = "not approved as the deploying account: "
"""How the policy's message begins, before ``VERB/GROUP/KIND[:SUBRESOURCE]/NAMESPACE/NAME``. A name
with a line break isn't shown, nor are blanks at its end.
"""


class Guard(NamedTuple):
    """By what the API server refuses what isn't approved."""

    policy: str | None
    """The name of the policy, and of its binding; None: there is none."""
    namespace: str
    """Of its lists: the operator's."""


class ListTooLargeError(Exception):
    """The operations don't fit into a ConfigMap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedDeploy:
    """A deploy whose Job may write what was approved, and what werf itself writes."""

    account: ServiceAccount
    release: str
    namespace: str
    """Of the release."""
    operations: tuple[Operation, ...]
    """The approved ones; of a retry also those of its own plan, which the approval covers."""
    revision: int
    """Of the release, that the deploy makes."""
    deployed_revision: int | None
    """That is deployed; None: none, or it isn't known."""
    hooks: frozenset[Operation] = frozenset()
    """Those of the operations that are hooks: their delete policies may delete them."""
    as_account: frozenset[Operation] = frozenset()
    """Those of the operations that may run, or make a token, as the deploying account."""
    auto_rollback: bool = False
    """Also the inverse of each, and one more revision; not for the first revision."""
    rollback_hooks: tuple[Operation, ...] = ()
    """Hooks that the deployed version brings for a rollback, as approved for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedUninstall:
    """An uninstall whose Job may delete what approved plans named."""

    account: ServiceAccount
    release: str
    namespace: str
    inventory: tuple[Operation, ...]
    """Each object that the approved plans of the release had, whatever the type."""
    hooks: tuple[Operation, ...]
    """Hooks for the uninstall, as approved."""
    as_account: frozenset[Operation] = frozenset()
    """Those of the hooks that may run, or make a token, as the deploying account."""


class _Verbs(StrEnum):
    """What may be done with an object, as a line begins."""

    WRITE = "CU"
    DELETE = "D"
    ALL = "CUD"


_VERBS: Final = {
    OperationType.CREATE: _Verbs.WRITE,
    OperationType.UPDATE: _Verbs.WRITE,
    OperationType.APPLY: _Verbs.WRITE,
    OperationType.DELETE: _Verbs.DELETE,
    OperationType.RECREATE: _Verbs.ALL,
}
"""An update may have to create what somebody has deleted meanwhile."""
_AS_ACCOUNT: Final = "A"


class _Lines:
    """The lines of one list, by object."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._verbs: dict[str, _Verbs] = {}
        self._as_account: set[str] = set()

    def allow(self, operation: Operation, verbs: _Verbs) -> None:
        """Allow these verbs beside those that are allowed already."""
        name = self._name(operation)
        self._verbs[name] = verbs if self._verbs.get(name, verbs) == verbs else _Verbs.ALL

    def allow_as_account(self, operations: Iterable[Operation]) -> None:
        """Allow what runs as the Job's account in these objects."""
        self._as_account.update(map(self._name, operations))

    def allow_own(self, kind: str, name: str, verbs: _Verbs) -> None:
        """Allow an object of werf's own, of the core API in the release's namespace."""
        self.allow(Operation(OperationType.APPLY, "", "", kind, name), verbs)

    def text(self) -> str:
        """All lines, sorted, with a line break before the first and after the last.

        Raises:
            ListTooLargeError: they don't fit into a ConfigMap.
        """
        lines = [f"{verbs}/{name}" for name, verbs in self._verbs.items()]
        lines += [f"{_AS_ACCOUNT}/{name}" for name in self._as_account & self._verbs.keys()]
        found = "".join(f"\n{line}" for line in sorted(lines)) + "\n"
        if (size := len(found.encode())) > LIST_BYTES:
            raise ListTooLargeError(
                f"the list of {len(self._verbs)} objects has {size} bytes, at most {LIST_BYTES} "
                "fit into a ConfigMap: split the chart into several Bundles"
            )
        return found

    def _name(self, one: Operation) -> str:
        namespace = "" if one.namespace == self._namespace else one.namespace
        return f"{one.group}/{one.kind}/{namespace}/{one.name}"


def deploy_list(deploy: GuardedDeploy) -> str:
    """What a deploy's Job may write, a line for each object.

    Raises:
        ListTooLargeError: it doesn't fit into a ConfigMap.
    """
    rolls_back = deploy.auto_rollback and deploy.revision > 1
    lines = _Lines(deploy.namespace)
    for one in deploy.operations:
        undone = rolls_back and one.type is not OperationType.UPDATE
        lines.allow(one, _Verbs.ALL if undone or one in deploy.hooks else _VERBS[one.type])
    for one in deploy.rollback_hooks if rolls_back else ():
        lines.allow(one, _Verbs.ALL)
    lines.allow_as_account(deploy.as_account)
    lines.allow_own("ConfigMap", LOCK, _Verbs.WRITE)
    revisions = {deploy.revision, deploy.revision + rolls_back}
    if deploy.deployed_revision is not None:
        # A later one may be deployed, where a successful Job's outcome wasn't seen.
        newest = range(max(deploy.deployed_revision, deploy.revision - _LATER), deploy.revision)
        revisions.update((deploy.deployed_revision, *newest))
    for revision in revisions:
        name = f"sh.helm.release.v1.{deploy.release}.v{revision}"
        lines.allow_own("Secret", name, _Verbs.WRITE)
    # Beyond the history's limit, which may have been lowered, and there may be gaps.
    is_known = deploy.deployed_revision is not None or deploy.revision == 1
    every = _Verbs.DELETE if is_known else _Verbs.ALL
    lines.allow_own("Secret", _every_revision(deploy.release), every)
    return lines.text()


def uninstall_list(uninstall: GuardedUninstall) -> str:
    """What an uninstall's Job may write, a line for each object.

    Raises:
        ListTooLargeError: it doesn't fit into a ConfigMap.
    """
    lines = _Lines(uninstall.namespace)
    for one in uninstall.inventory:
        lines.allow(one, _Verbs.DELETE)
    for one in uninstall.hooks:
        lines.allow(one, _Verbs.ALL)
    lines.allow_as_account(uninstall.as_account)
    lines.allow_own("ConfigMap", LOCK, _Verbs.WRITE)
    # The newest is updated, whatever its number: a failed revision may have been the last.
    lines.allow_own("Secret", _every_revision(uninstall.release), _Verbs.ALL)
    return lines.text()


def _every_revision(release: str) -> str:
    """No name of an object: the policy takes the number of each revision for the slash."""
    return f"sh.helm.release.v1.{release}.v/"


def key_of(job: ObjectName) -> str:
    """The key of a Job's list in the data of a ConfigMap: no namespace has a dot."""
    return f"{job.namespace}.{job.name}"


def job_of(key: str) -> ObjectName:
    """The Job of a key; of what the operator didn't write, one that can't exist."""
    namespace, _, name = key.partition(".")
    return ObjectName(namespace, name)


def list_of(guarded: GuardedDeploy | GuardedUninstall) -> str:
    """The list of a Job: its account, the release's namespace, and a line for each object.

    Raises:
        ListTooLargeError: it doesn't fit into a ConfigMap.
    """
    lines = deploy_list(guarded) if isinstance(guarded, GuardedDeploy) else uninstall_list(guarded)
    return f"{guarded.account.user}\n{guarded.namespace}{lines}"


def config_map(name: str, lists: Mapping[str, str]) -> dict[str, Any]:
    """A ConfigMap of lists by their keys, but for its namespace.

    One has the lists of many Jobs: each costs each write of the cluster (docs/facts/guard.md).
    """
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {names.LABEL_GUARD: "lists"}},
        "data": dict(lists),
    }


_SHOWN: Final = 200
"""Characters of an object that a message has."""
_DENIED: Final = (
    r"^.*?ValidatingAdmissionPolicy '{0}' with binding '{0}' denied request: (?:{1}|({2}))"
    r"(CREATE|UPDATE|DELETE|CONNECT)/([a-z0-9.-]{{0,253}})/([A-Za-z0-9]{{1,63}})"
    r"(?::([a-z]{{1,63}}(?:/[a-z]{{1,63}})?))?/([a-z0-9-]{{0,63}})/(.*)"
)
_RELEASE: Final = "sh.helm.release.v1."


class Blame(Enum):
    """Why a Job tried to write what isn't on its list; the worst first."""

    DIGEST = "the chart does what wasn't approved"
    OURS = "the list lacks a write of werf's own"
    CHANGED = "the object isn't as it was when it was planned"


@dataclass(frozen=True, slots=True)
class DeniedWrite:
    """A write that was refused."""

    verb: str
    """CREATE, UPDATE, DELETE or CONNECT."""
    group: str
    kind: str
    subresource: str
    """Empty: the object itself."""
    namespace: str
    name: str
    as_account: bool
    """Whether only that it acts as the Job's account wasn't approved."""

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        kind = f"{self.kind}.{self.group}" if self.group else self.kind
        kind += f"/{self.subresource}" if self.subresource else ""
        name = self.name if len(self.name) <= _SHOWN else f"{self.name[:_SHOWN]}…"
        role = ", which acts as the deploying account" if self.as_account else ""
        return f"{self.verb} of {kind} {name}{where}{role}"


def find_refusals(error: str, policy: str) -> tuple[DeniedWrite, ...]:
    """The refusals by this policy in werf's error.

    Args:
        error: of ``werf_error.find_error``.
        policy: its name, and that of its binding.
    """
    words = (re.escape(one) for one in (NOT_APPROVED, NOT_AS_ACCOUNT))
    denied = _DENIED.format(re.escape(policy), *words)
    return tuple(
        DeniedWrite(verb, group, kind, part or "", namespace, name.rstrip(), as_account is not None)
        for as_account, verb, group, kind, part, namespace, name in (
            found.groups() for found in re.finditer(denied, error, re.MULTILINE)
        )
    )


def judge_refusals(
    refusals: Iterable[DeniedWrite],
    approved: Collection[Operation],
    release: ReleaseKey,
    untouched: Collection[Operation] = (),
) -> tuple[DeniedWrite, Blame]:
    """The refusal that tells most of a deploy that had some, and whose fault it is.

    ``approved`` are the operations of its plan, ``untouched`` the objects that it left alone. werf
    writes these too: where somebody else has edited them, to own their managed fields.
    """
    judged = [(one, _judge(one, approved, release, untouched)) for one in refusals]
    return min(judged, key=lambda pair: list(Blame).index(pair[1]))


def _judge(
    refusal: DeniedWrite,
    approved: Collection[Operation],
    release: ReleaseKey,
    untouched: Collection[Operation],
) -> Blame:
    if refusal.as_account or refusal.subresource:
        return Blame.DIGEST
    place = "" if refusal.namespace == release.namespace else refusal.namespace
    of_object = refusal.group, refusal.kind, refusal.name
    is_written = refusal.verb in ("CREATE", "UPDATE")
    same = [
        one
        for one in (*approved, *(untouched if is_written else ()))
        if (one.group, one.kind, one.name) == of_object
        and ("" if one.namespace == release.namespace else one.namespace) == place
    ]
    if same:
        return Blame.CHANGED
    is_core = not refusal.group and not place
    secret = rf"{re.escape(_RELEASE + release.name)}\.v[0-9]+"
    is_lock = refusal.kind == "ConfigMap" and refusal.name == LOCK
    is_stored = refusal.kind == "Secret" and re.fullmatch(secret, refusal.name) is not None
    return Blame.OURS if is_core and (is_lock or is_stored) else Blame.DIGEST
