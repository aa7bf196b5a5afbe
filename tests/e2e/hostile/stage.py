"""A cluster with a trusted rule, new namespaces that it serves, and hostile authors beside them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.installation import install, uninstall
from tests.e2e.operator_process import OperatorProcess, until
from tests.e2e.vanishing import sweep, vanish

from hostile.bad import SHARED, Places
from hostile.neighbours import Plan
from hostile.newcomers import Newcomers, bare_client, waits, whoami
from localcluster import Api, Cluster

COPIES = {"secrets": 1, "configmaps": 1}
"""What the trusted rules give each new namespace."""
SERVED = 60.0
"""Seconds within which a namespace has its copies, however long it took the others."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds that new namespaces waited.

    Attributes:
        copies: for what the trusted rules give each.
        bare: for what a client gives each that does nothing else.
    """

    copies: list[float]
    bare: list[float]


@dataclass(slots=True)
class Stage:
    """The operator's namespace `home`, and what stands around it; names begin with `word`."""

    cluster: Cluster
    api: Api
    home: str
    word: str
    kubeconfig: Path
    newcomers: Newcomers

    @property
    def user(self) -> str:
        """The operator, as the audit log names it."""
        return f"system:serviceaccount:{self.home}:copyrator"

    @property
    def places(self) -> Places:
        """Where the hostile authors are, and what they are aimed at."""
        evil = tuple(f"evil-{self.word}-{number}" for number in range(2))
        forged = tuple(f"{self.word}-forged-{number}" for number in range(2))
        return Places(evil, forged, f"victim-{self.word}", f"{self.home}/good", "")

    def plan(self, seed: int, categories: tuple[str, ...]) -> Plan:
        """What the hostile authors do."""
        return Plan(str(self.cluster.state_dir), self.places, seed, categories)

    def operator(self, log: Path, *, tenants: bool) -> OperatorProcess:
        """The operator, started."""
        settings = {
            "NAMESPACE": self.home,
            "COPYRATOR_TENANT_RULES": "true" if tenants else "false",
            "COPYRATOR_ALLOW_REGISTRY_ADDRESSES": "127.0.0.1/32",
            "WERF_OPERATOR_TIMER_INTERVAL": "10",
            "WERF_OPERATOR_TIMER_IDLE": "0",
        }
        return OperatorProcess(self.kubeconfig, log, settings=settings)

    def begin(self) -> None:
        """The hostile namespaces, the victim's, and the trusted rules."""
        for name in (*self.places.evil, *self.places.forged, self.places.victim):
            self.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        for name in self.places.evil:
            account = {"metadata": {"name": "werf"}}
            self.api.create(f"/api/v1/namespaces/{name}/serviceaccounts", account)
        source = {"metadata": {"name": "good"}, "stringData": {"key": "x" * 2_000}}
        self.api.create(f"/api/v1/namespaces/{self.home}/secrets", source)
        template = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "made"},
            "data": {"namespace": "{{ namespace.name }}"},
        }
        # The hostile author's own sources, which the operator was told to copy.
        theirs = {
            "kind": "ConfigMap",
            "namespaces": list(self.places.evil),
            "selector": {"matchLabels": {SHARED: "yes"}},
        }
        self._rule("good", {"source": {"kind": "Secret", "name": "good"}}, f"{self.word}-*")
        self._rule("made", {"template": template}, f"{self.word}-*")
        self._rule("shared", {"source": theirs}, *self.places.forged)

    def _rule(self, name: str, spec: dict[str, Any], *targets: str) -> None:
        body = {
            "apiVersion": "flant.com/v1",
            "kind": "CopyratorRule",
            "metadata": {"name": name},
            "spec": {**spec, "targets": {"namespaces": list(targets)}},
        }
        self.api.create(f"/apis/flant.com/v1/namespaces/{self.home}/copyrators", body)

    def serve(self, process: OperatorProcess, seconds: float) -> Waits:
        """A new namespace each second; how long each waited for its copies, once all have them."""
        since, ourselves = self.cluster.audit_offset(), whoami(self.api)
        with bare_client(self.api, self.word):
            names = self.newcomers.come(seconds)
            found: dict[str, float] = {}
            bare: dict[str, float] = {}

            def all_served() -> bool:
                assert process.code is None, f"the operator ended with code {process.code}"
                nonlocal found, bare
                events = self.cluster.audit_events(since)
                found = waits(events, names, self.user, COPIES)
                bare = waits(events, names, ourselves, {"secrets": 1})
                return len(found) == len(bare) == len(names)

            until(all_served, lambda: f"served: {sorted(set(names) - set(found))}", SERVED)
        return Waits(list(found.values()), list(bare.values()))

    def end(self) -> None:
        """Remove the namespaces."""
        vanish(self.cluster, (*self.places.evil, *self.places.forged, self.places.victim))
        sweep(self.cluster, f"{self.word}-")


@contextmanager
def stage(cluster: Cluster) -> Iterator[Stage]:
    """Set up, and tidied up."""
    home, word = f"op-{secrets.token_hex(3)}", f"h{secrets.token_hex(3)}"
    api = cluster.api()
    kubeconfig = install(cluster, home)
    made = Stage(cluster, api, home, word, kubeconfig, Newcomers(api, word))
    try:
        made.begin()
        yield made
    finally:
        made.end()
        uninstall(cluster, home)
