"""The audit log: how a test counts the requests of a user, and sees what was refused."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

READ_VERBS = ("get", "list", "watch")
POLICY: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [
        {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*"]},
        # What fills each new namespace some time later, and empties each deleted one with 70
        # requests: whoever counts the requests in a namespace doesn't mean them.
        {
            "level": "None",
            "users": [
                f"system:serviceaccount:kube-system:{controller}"
                for controller in (
                    "namespace-controller",
                    "root-ca-cert-publisher",
                    "service-account-controller",
                )
            ],
        },
        # One line when it is done, and for a watch one when it begins.
        {"level": "Metadata", "verbs": [*READ_VERBS], "omitStages": ["RequestReceived"]},
        # One when it comes, too: its effect can be seen before the line that says it is done.
        {"level": "Metadata"},
    ],
}

WRITE_VERBS = frozenset({"create", "update", "patch", "delete", "deletecollection"})
WRITE_SECONDS = 10.0
"""How long a write is waited for; an older one is a killed or hanging server's."""


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One request as the API server saw it.

    Attributes:
        user: the name, such as `system:serviceaccount:copyrator:copyrator`.
        verb: get, list, watch, create, update, patch, delete, deletecollection.
        resource: the plural, empty for paths that aren't resources.
        subresource: such as `status`, or empty.
        namespace: empty for a cluster-wide request.
        name: empty for a collection, and for a create whose body wasn't read.
        code: the HTTP status of the answer; 504 where the client had gone, done or not.
        uri: path and query.
        denied: the authorizer said no: a right is missing. (A quota, an admission hook or a
            Terminating namespace answers 403, too, to somebody who has the right.)
        began: when the request came in, seconds since the epoch.
        ended: when it was answered; for a watch, when its answer began.
    """

    user: str
    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    uri: str
    denied: bool = False
    began: float = 0.0
    ended: float = 0.0


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests since some moment; each look reads the log anew.

    Attributes:
        log: the audit log.
        since: the moment, as a place in the log.
    """

    log: Path
    since: int

    def all(self, **wanted: str | int) -> list[AuditEvent]:
        """The requests whose fields are as wanted: `all(user=…, verb="create", code=409)`."""
        return [
            event
            for event in read_events(self.log, self.since)
            if all(getattr(event, field) == value for field, value in wanted.items())
        ]

    def writes(self, **wanted: str | int) -> list[AuditEvent]:
        """Those of them that change something, or would if they weren't refused."""
        return [event for event in self.all(**wanted) if event.verb in WRITE_VERBS]

    def count(self, **wanted: str | int) -> Counter[tuple[str, str]]:
        """How many of them there are of each verb and resource."""
        return Counter((event.verb, event.resource) for event in self.all(**wanted))


def read_events(log: Path, since: int = 0) -> list[AuditEvent]:
    """The requests that were logged from byte `since` on, each one once.

    Writes that the server is at are waited for, `WRITE_SECONDS` at most.
    """
    end = offset(log)
    while True:
        events, open_writes = _read(log, since, end)
        if not open_writes:
            return events
        time.sleep(0.02)


def _read(log: Path, since: int, end: int) -> tuple[list[AuditEvent], set[str]]:
    """The requests since a place, and the writes that came before another and aren't done.

    A write's effect may be seen, and the place be taken, before its last line: it came before that.
    """
    seen: set[str] = set()
    came: set[str] = set()
    waiting: set[str] = set()
    events = []
    oldest = time.time() - WRITE_SECONDS
    for place, entry in _entries(log, since):
        request = entry["auditID"]
        if entry["stage"] == "RequestReceived":
            came.add(request)
            if place < end and _seconds(entry["stageTimestamp"]) > oldest:
                waiting.add(request)
        elif entry["verb"] in WRITE_VERBS and request not in came:
            continue
        elif request not in seen:  # a watch is logged when it begins and when it ends
            seen.add(request)
            events.append(_event(entry))
    return events, waiting - seen


def offset(log: Path) -> int:
    """The place in the log that the next request will be written to; 0 when there is no log."""
    return log.stat().st_size if log.exists() else 0


def _entries(log: Path, since: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """The lines from a byte on, each with the byte that it begins at."""
    if not log.exists():
        return
    with log.open("rb") as lines:
        if since:
            # The log may have grown by a part of a line just then: that request was before.
            lines.seek(since - 1)
            if not lines.readline().endswith(b"\n"):
                return
        place = lines.tell()
        for line in lines:
            if not line.endswith(b"\n"):  # it is being written; the next would be its rest
                return
            yield place, json.loads(line)
            place += len(line)


def _event(entry: dict[str, Any]) -> AuditEvent:
    # As the request was authorised: under impersonation, the user that was impersonated.
    user = entry.get("impersonatedUser") or entry["user"]
    target = entry.get("objectRef", {})
    return AuditEvent(
        user=user.get("username", ""),
        verb=entry["verb"],
        resource=target.get("resource", ""),
        subresource=target.get("subresource", ""),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        code=entry.get("responseStatus", {}).get("code", 0),
        uri=entry["requestURI"],
        denied=entry.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid",
        began=_seconds(entry["requestReceivedTimestamp"]),
        ended=_seconds(entry["stageTimestamp"]),
    )


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
