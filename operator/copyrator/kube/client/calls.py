"""One request to the API server as a value, and its construction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from copyrator.api.names import FIELD_MANAGER
from copyrator.kube.resources import Resource

CONNECT_TIMEOUT = 5.0
"""Seconds to connect, TLS included."""

REQUEST_TIMEOUT = 30.0
"""Seconds for a whole answer, unless the call sets its own."""

JSON = "application/json"

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
"""RBAC's verbs for the methods that write."""

REVIEWS = "/apis/authorization.k8s.io/"

WRITES = frozenset({"create", "update", "patch", "delete"})


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `verb` and `resource` are RBAC's terms, for metrics and limits."""

    verb: str
    resource: str
    path: str
    method: str = "GET"
    params: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: aiohttp.ClientTimeout = field(
        default=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT, sock_connect=CONNECT_TIMEOUT)
    )
    most: int | None = None
    """Limit of the answer in bytes; a longer one raises AnswerTooLarge."""
    dropped: set[str] | None = None
    """Filled with the fields of the body that the server has dropped."""

    @property
    def writes(self) -> bool:
        """Whether it changes an object; an access review is sent by POST and doesn't."""
        return self.verb in WRITES and not self.path.startswith(REVIEWS)


def write(
    method: str, res: Resource, path: str, body: Any, *, content_type: str = JSON, **params: str
) -> Call:
    """A request that writes, with our field manager."""
    if method != "DELETE":
        params.setdefault("fieldManager", FIELD_MANAGER)
    headers = {"Content-Type": content_type, "Accept": JSON}
    return Call(VERBS[method], res.key, path, method, params, body, headers)


def total(seconds: float) -> aiohttp.ClientTimeout:
    """A timeout for the whole answer."""
    return aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_TIMEOUT)


def selectors(label_selector: str | None, field_selector: str | None) -> dict[str, str]:
    """The query parameters of the selectors."""
    found = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in found.items() if value}


def resource_of(path: str) -> str:
    """The resource's key for a path, for metrics; the path itself where it names none."""
    parts = path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (".".join(parts[1:2]), parts[3:])
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    if parts[0] not in {"api", "apis"} or not rest:
        return parts[0]
    return f"{rest[0]}.{group}" if group else rest[0]
