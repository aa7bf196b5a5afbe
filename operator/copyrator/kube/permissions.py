"""Permissions by access reviews: the caller's, another user's, and those that the operator lacks.

What the operator lacks is added by a 403 and removed when it is granted. The object of each refused
request has a condition already: here the missing permissions are collected for /readyz, and access
reviews check whether they have been granted, so that no object waits for the rest of its back-off.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from copyrator.kube.errors import ApiError, BrokenAnswer, Permission, Refusal

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

_API_VERSION: Final = "authorization.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Subject:
    """Another user than the caller."""

    user: str
    groups: Sequence[str]


async def is_allowed(
    reviewer: KubeClient,
    attributes: Mapping[str, str],
    subject: Subject | None = None,
    *,
    local: bool = False,
    timeout: float | None = None,  # noqa: ASYNC109 - becomes a timeout of the connection
) -> bool:
    """Whether a request with these resourceAttributes is allowed to a subject; None: the caller.

    Every user may review their own requests (the ClusterRole system:basic-user), others' only with
    a permission. ``local``: another user's are reviewed in the attributes' namespace, for which a
    permission in that namespace is enough.

    Raises:
        ApiError: the review failed.
    """
    kind = "SubjectAccessReview" if subject else "SelfSubjectAccessReview"
    spec: dict[str, Any] = {"resourceAttributes": dict(attributes)}
    if subject:
        spec |= {"user": subject.user, "groups": list(subject.groups)}
    body = {"apiVersion": _API_VERSION, "kind": kind, "spec": spec}
    path = f"/apis/{_API_VERSION}/{kind.lower()}s"
    if subject and local:
        body["kind"], where = f"Local{kind}", attributes["namespace"]
        path = f"/apis/{_API_VERSION}/namespaces/{where}/local{kind.lower()}s"
    answer = await reviewer.request("POST", path, body=body, timeout=timeout)
    status = answer.get("status") if isinstance(answer, dict) else None
    allowed = status.get("allowed") if isinstance(status, dict) else None
    if not isinstance(allowed, bool):
        raise BrokenAnswer("the API server's answer is no access review")
    return allowed


log = logging.getLogger(__name__)

TICK = 1.0
FIRST_DELAY, LONGEST_DELAY = 1.0, 30.0
"""Seconds between two reviews of a permission, doubling."""
LONGEST_DOUBT = 300.0
"""The same where a review allowed it and the request was refused again: not by the authorizer."""
FORGET = 900.0
"""Seconds without a new refusal, three times the longest back-off: the permission is unused."""
SHOWN = 20
"""Limit of the permissions that /readyz lists."""


@dataclass(slots=True)
class _MissingPermission:
    """A missing permission and its last refusal."""

    refusal: Refusal
    last: float
    due: float
    delay: float = FIRST_DELAY
    granted: bool = False


class MissingPermissions:
    """Records refusals; `review_for_ever` runs as a separate task."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.on_granted: Callable[[], None] = lambda: None
        """Called when a request that was refused may succeed now."""
        self._clock = clock
        self._missing: dict[Permission, _MissingPermission] = {}

    def refused(self, refusal: Refusal) -> None:
        """Record an RBAC 403."""
        now = self._clock()
        found = self._missing.get(refusal.permission)
        if found is None:
            found = _MissingPermission(refusal, now, now + FIRST_DELAY)
            self._missing[refusal.permission] = found
            log.warning("Missing permission: %s", refusal)
        elif found.granted:
            found.granted = False
            found.delay = min(found.delay * 2, LONGEST_DOUBT)
            found.due = now + found.delay
        found.refusal, found.last = refusal, now

    def missing(self) -> list[Refusal]:
        """The missing permissions, sorted."""
        lacking = sorted(
            (permission, found) for permission, found in self._missing.items() if not found.granted
        )
        return [found.refusal for _, found in lacking]

    def sentence(self) -> str | None:
        """The message for /readyz: the missing permissions; None where none is missing."""
        missing = self.missing()
        if not missing:
            return None
        more = f", and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
        shown = "; ".join(str(refusal) for refusal in missing[:SHOWN])
        what = "permission" if len(missing) == 1 else "permissions"
        return (
            f"the operator cannot {shown}{more}: grant the {what}, or disable the feature that "
            "needs it"
        )

    async def review_for_ever(self, reviewer: KubeClient) -> None:
        """Review the missing permissions periodically."""
        while True:
            await asyncio.sleep(TICK)
            if await self.review(reviewer):
                self.on_granted()

    async def review(self, reviewer: KubeClient) -> bool:
        """Review the permissions that are due; return whether any was granted."""
        granted = False
        for permission, found in list(self._missing.items()):
            now = self._clock()
            if now - found.last > FORGET:
                del self._missing[permission]
            elif not found.granted and now >= found.due:
                granted |= await self._is_granted(reviewer, found)
        return granted

    async def _is_granted(self, reviewer: KubeClient, found: _MissingPermission) -> bool:
        refusal = found.refusal
        try:
            allowed = await is_allowed(reviewer, refusal.attributes)
        except ApiError as error:
            log.debug("can't review whether the operator can %s: %s", refusal, error)
            allowed = False
        if refusal is not found.refusal:  # refused elsewhere meanwhile: review that
            return False
        if allowed:
            found.granted = True
            log.info("Permission granted: %s", refusal)
            return True
        found.delay = min(found.delay * 2, max(found.delay, LONGEST_DELAY))
        found.due = self._clock() + found.delay
        return False
