"""A small synchronous client of the control plane, for readiness checks and for tests.

It is not the operator's client: a test that used the code under test to look at the result
would be blind to its faults.
"""

import json
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import urllib3

_TIMEOUT_SECONDS = 30.0
_KEPT = 32
"""Connections that wait for the next request."""
_METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


class ApiStatusError(Exception):
    """The API server answered with an error.

    Attributes:
        code: the HTTP status.
        reason: the Status object's reason, such as `AlreadyExists`.
        causes: `field: message` of each field at fault.
    """

    def __init__(
        self, code: int, reason: str, message: str, causes: Sequence[Mapping[str, str]] = ()
    ) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.causes = [f"{one.get('field')}: {one.get('message')}" for one in causes]


@dataclass(frozen=True, slots=True)
class Api:
    """Requests to an API server as one user.

    Attributes:
        server: `https://127.0.0.1:PORT`.
        context: trusts the server's CA, and holds the client certificate if there is one.
        user: whom to impersonate; nobody if empty.
        token: a bearer token; without effect beside a client certificate.
    """

    server: str
    context: ssl.SSLContext
    user: str = ""
    token: str = field(default="", repr=False)
    _pool: urllib3.PoolManager = field(init=False, repr=False, compare=False)
    """Keeps connections, for threads: a handshake costs both sides more than a request."""

    def __post_init__(self) -> None:
        pool = urllib3.PoolManager(maxsize=_KEPT, ssl_context=self.context, retries=False)
        object.__setattr__(self, "_pool", pool)

    def as_user(self, user: str) -> "Api":
        """A client that impersonates a user, as `kubectl --as` does."""
        return Api(self.server, self.context, user)

    def get(self, path: str, **parameters: str) -> Any:
        """GET a path, such as `/api/v1/namespaces`."""
        return self.request("GET", path, parameters=parameters)

    def metadata(self, path: str) -> list[dict[str, Any]]:
        """The metadata of a collection's objects, whatever else is in them."""
        found = self.request("GET", path, accept=_METADATA)
        return [one["metadata"] for one in found["items"] or ()]

    def remove_finalizers(self, path: str) -> None:
        """Remove an object's finalizers; it may be gone by then."""
        try:
            self.patch(path, {"metadata": {"finalizers": None}})
        except ApiStatusError as error:
            if error.code != 404:
                raise

    def create(self, path: str, body: dict[str, Any]) -> Any:
        """POST an object to a collection."""
        return self.request("POST", path, body)

    def replace(self, path: str, body: dict[str, Any]) -> Any:
        """PUT an object."""
        return self.request("PUT", path, body)

    def patch(self, path: str, body: Any, kind: str = "merge-patch") -> Any:
        """PATCH an object; `kind` is merge-patch, json-patch or strategic-merge-patch."""
        return self.request("PATCH", path, body, content_type=f"application/{kind}+json")

    def delete(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """DELETE an object; `body` holds DeleteOptions."""
        return self.request("DELETE", path, body)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        parameters: dict[str, str] | None = None,
    ) -> Any:
        """One request; the decoded JSON of the answer, or its text.

        Raises:
            ApiStatusError: the answer is an error.
            OSError: there was no answer.
        """
        query = f"?{urlencode(parameters)}" if parameters else ""
        payload = None if body is None else json.dumps(body)
        headers = {"Content-Type": content_type, "Accept": accept}
        if self.user:
            headers["Impersonate-User"] = self.user
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            answer = self._pool.request(
                method,
                f"{self.server}{path}{query}",
                body=payload,
                headers=headers,
                timeout=_TIMEOUT_SECONDS,
            )
        except urllib3.exceptions.HTTPError as error:
            raise ConnectionError(f"{method} {path}: {error!r}") from error
        is_json = "json" in answer.headers.get("Content-Type", "")
        decoded = answer.json() if is_json else answer.data.decode(errors="replace")
        if answer.status >= 400:
            details: dict[str, Any] = decoded if isinstance(decoded, dict) else {"message": decoded}
            causes = (details.get("details") or {}).get("causes") or ()
            raise ApiStatusError(
                answer.status, details.get("reason", ""), details.get("message", ""), causes
            )
        return decoded
