"""New namespaces at a steady pace, and how long each waits for what a trusted rule gives it.

Beside the operator a bare client gives each an object of its own: what that takes is the API
server's doing, which has to read and store the bad objects on the same processors.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from localcluster import Api
from localcluster.audit import AuditEvent

BARE = "bare"
"""Name of what the bare client makes."""


@dataclass(slots=True)
class Newcomers:
    """Makes namespaces whose names begin with `word`."""

    api: Api
    word: str
    made: int = 0

    def come(self, seconds: float, every: float = 1.0) -> list[str]:
        """One namespace each `every` seconds, for so long; returns their names."""
        began = time.monotonic()
        names: list[str] = []
        while (due := began + len(names) * every) < began + seconds:
            time.sleep(max(due - time.monotonic(), 0))
            names.append(self.one())
        return names

    def one(self) -> str:
        """One namespace, now; returns its name."""
        name = f"{self.word}-{self.made}"
        self.made += 1
        self.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        return name


def waits(
    events: Iterable[AuditEvent], names: Iterable[str], user: str, copies: Mapping[str, int]
) -> dict[str, float]:
    """Seconds from the answer to a namespace's creation until all its copies existed.

    Times are the API server's own, from the audit log: the client's don't count.

    Args:
        events: the audit log.
        names: the namespaces.
        user: the operator, as the log names it.
        copies: how many objects of each plural a namespace gets.

    Returns:
        By namespace; one that hasn't got all its copies is missing.
    """
    made: dict[str, float] = {}
    given: dict[tuple[str, str], list[float]] = {}
    for event in events:
        if event.verb != "create" or event.code >= 300:
            continue
        if event.resource == "namespaces":
            made[event.name or event.uri.rpartition("/")[2]] = event.ended
        elif event.user == user and event.resource in copies:
            given.setdefault((event.namespace, event.resource), []).append(event.ended)
    found = {}
    for name in names:
        ends = [sorted(given.get((name, plural), ()))[:many] for plural, many in copies.items()]
        if all(len(each) == many for each, many in zip(ends, copies.values(), strict=True)):
            found[name] = max(end for each in ends for end in each) - made[name]
    return found


@contextmanager
def bare_client(api: Api, word: str) -> Iterator[None]:
    """Give each new namespace whose name begins with `word` a Secret, until the block ends."""
    address = urlsplit(api.server)
    watch = http.client.HTTPSConnection(
        address.hostname or "", address.port, timeout=600, context=api.context
    )
    version = api.get("/api/v1/namespaces", limit="1")["metadata"]["resourceVersion"]
    watch.request("GET", f"/api/v1/namespaces?watch=1&resourceVersion={version}")
    events = watch.getresponse()

    def serve() -> None:
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            while line := events.readline():
                event = json.loads(line)
                name = event["object"]["metadata"].get("name", "")
                if event["type"] == "ADDED" and name.startswith(f"{word}-"):
                    body = {"metadata": {"name": BARE}, "stringData": {"key": "x" * 2_000}}
                    api.create(f"/api/v1/namespaces/{name}/secrets", body)

    thread = threading.Thread(target=serve, name=BARE)
    thread.start()
    try:
        yield
    finally:
        if watch.sock is not None:
            watch.sock.shutdown(socket.SHUT_RDWR)
        thread.join()
        watch.close()


def whoami(api: Api) -> str:
    """The client's user, as the audit log names it."""
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    name: str = api.create(path, review)["status"]["userInfo"]["username"]
    return name


def percentile(values: Iterable[float], share: float) -> float:
    """The value that `share` of them don't exceed."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
