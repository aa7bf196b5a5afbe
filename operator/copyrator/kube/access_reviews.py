"""Access reviews: what the API server's authorizers allow, to the caller or to another user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from copyrator.kube.errors import BrokenAnswer

_API_VERSION: Final = "authorization.k8s.io/v1"


class Reviewer(Protocol):
    """The part of KubeClient that sends reviews."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any],
        timeout: float | None = None,  # noqa: ASYNC109 - becomes a timeout of the connection
    ) -> Any:
        """Send a review."""
        ...


@dataclass(frozen=True, slots=True)
class Subject:
    """Another user than the caller."""

    user: str
    groups: Sequence[str]


async def is_allowed(
    reviewer: Reviewer,
    attributes: Mapping[str, str],
    subject: Subject | None = None,
    *,
    local: bool = False,
    timeout: float | None = None,  # noqa: ASYNC109 - becomes a timeout of the connection
) -> bool:
    """Whether a request is allowed.

    Args:
        reviewer: sends the review.
        attributes: its resourceAttributes: verb, group, resource, subresource, namespace, name.
        subject: whose request it is; None: the caller's. Every user may review their own
            (the ClusterRole system:basic-user), others' only with a permission.
        local: review another user's request in the attributes' namespace, for which a permission in
            that namespace is enough.
        timeout: seconds; None: the client's.

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
