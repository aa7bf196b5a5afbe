"""Who the user is, as the API server sees it."""

from __future__ import annotations

from typing import Final

from copyrator.kube.client.client import KubeClient

_REVIEWS: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def username(client: KubeClient) -> str:
    """The name of the user, or of the one who is impersonated."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await client.request("POST", _REVIEWS, body=body)
    return str(answer["status"]["userInfo"]["username"])
