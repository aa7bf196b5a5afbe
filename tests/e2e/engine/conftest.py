"""The engine's contract, as the API server, the registry and the operator's ports show it.

Nothing in this folder imports `copyrator.bundles`, so it holds unchanged however that is built.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus

from tests.e2e.bundles.conftest import Team, lasting_team, team
from tests.e2e.bundles.private_registry import front
from tests.e2e.installation import Operator
from tests.e2e.operator_process import until

from localcluster import Cluster

__all__ = ["lasting_team", "team"]

BROKEN = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: Not_A_Name\ndata:\n  text: TEXT\n"
"""A template that the API server refuses."""


@dataclass
class Registry:
    """A registry, and what it was asked."""

    host: str
    asked: list[str]
    stalling: threading.Event
    """While it is set, no chart is sent, so Jobs go on for ever."""

    def requests(self, repo: str) -> int:
        """How many there were for a repository: of the operator, and of werf while a Job runs."""
        return sum(path.startswith(f"/v2/{repo}/") for path in self.asked)

    def wait_polled(self, *repos: str) -> None:
        """Wait for two polls of each at least: one takes two requests at most."""
        before = {repo: self.requests(repo) for repo in repos}
        for repo in repos:
            until(lambda repo=repo: self.requests(repo) >= before[repo] + 4, f"{repo} is polled")


@contextmanager
def noting(cluster: Cluster, *, password: bool = False) -> Iterator[Registry]:
    """The cluster's registry behind a server that notes its requests, and may want a password."""
    asked: list[str] = []
    stalling = threading.Event()
    with front(cluster.registry, password=password, stalling=stalling, asked=asked) as host:
        yield Registry(host, asked, stalling)


def written(
    operator: Operator, team: Team, since: int, name: str = "", but: tuple[str, ...] = ()
) -> Counter[str]:
    """The operator's writes in the namespace, or for one Bundle, since a place in the audit log.

    Not those that conflicted with another's, such as the garbage collector's, and were repeated.
    """
    return Counter(
        f"{one.verb} {one.resource}" + (f"/{one.subresource}" if one.subresource else "")
        for one in operator.writes(since, at={team.namespace}, but=but)
        if one.name.startswith(name) and one.code != HTTPStatus.CONFLICT
    )


def events(team: Team, name: str) -> Counter[str]:
    """How many Events a Bundle has of each reason."""
    field = f"involvedObject.kind=Bundle,involvedObject.name={name}"
    items = team.api.get(team.path("events"), fieldSelector=field)["items"]
    return Counter(one["reason"] for one in items)


def conditions(team: Team, name: str) -> dict[str, tuple[str, str]]:
    """Status and reason of each condition."""
    found = team.status(name).get("conditions") or []
    return {one["type"]: (one["status"], one["reason"]) for one in found}
