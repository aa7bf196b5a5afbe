"""Refusals of the policy that holds a Job to its list, and whose fault each is. Pure.

The API server writes ``KIND "NAME" is forbidden: ValidatingAdmissionPolicy 'P' with binding 'B'
denied request: MESSAGE``, which werf quotes in its last error (docs/facts/guard.md). A chart may
print such words too: then its own deploy counts as refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from copyrator.api.keys import ReleaseKey
from copyrator.bundles.features.approval.guard.listing import NOT_APPROVED, NOT_AS_ACCOUNT
from copyrator.bundles.features.approval.operations import Operation
from copyrator.bundles.jobs.rights import LOCK

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
