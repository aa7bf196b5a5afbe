"""A small synchronous client of the control plane, for readiness checks and for tests.

It is not the operator's client: a test that used the code under test to look at the result
would be blind to its faults.
"""

import http.client
import json
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

_TIMEOUT_SECONDS = 30.0


class ApiStatusError(Exception):
    """The API server answered with an error.

    Attributes:
        code: the HTTP status.
        reason: the Status object's reason, such as `AlreadyExists`.
    """

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Api:
    """Requests to an API server as one user.

    Attributes:
        server: `https://127.0.0.1:PORT`.
        context: trusts the server's CA, and holds the client certificate if there is one.
    """

    server: str
    context: ssl.SSLContext

    def get(self, path: str, **parameters: str) -> Any:
        """GET a path, such as `/api/v1/namespaces`."""
        return self.request("GET", path, parameters=parameters)

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
        parameters: dict[str, str] | None = None,
    ) -> Any:
        """One request; the decoded JSON of the answer, or its text.

        Raises:
            ApiStatusError: the answer is an error.
            OSError: there was no answer.
        """
        address = urlsplit(self.server)
        connection = http.client.HTTPSConnection(
            address.hostname or "", address.port, timeout=_TIMEOUT_SECONDS, context=self.context
        )
        query = f"?{urlencode(parameters)}" if parameters else ""
        payload = None if body is None else json.dumps(body)
        try:
            connection.request(method, path + query, payload, {"Content-Type": content_type})
            answer = connection.getresponse()
            content = answer.read()
        except http.client.HTTPException as error:
            raise ConnectionError(f"{method} {path}: {error!r}") from error
        finally:
            connection.close()
        is_json = "json" in answer.headers.get("Content-Type", "")
        decoded = json.loads(content) if is_json else content.decode(errors="replace")
        if answer.status >= 400:
            details = decoded if isinstance(decoded, dict) else {"message": decoded}
            raise ApiStatusError(
                answer.status, details.get("reason", ""), details.get("message", "")
            )
        return decoded
