"""One operator under the chart's rights, namespaces to copy between, and what users see of it."""

import json
import secrets
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from tests.e2e.bundles.conftest import Team
from tests.e2e.copies.conftest import User, encoded
from tests.e2e.faults.proxy import FaultProxy
from tests.e2e.operator_process import OperatorProcess, until
from tests.e2e.rights.roles import Roles

ALLOW = "copyrator.flant.com/allow-to"

Says = Callable[[], str]
"""What the condition says now."""
Case = Callable[["Stage"], Generator[Says | None, None, None]]
"""Gets everything ready; at its first `yield` the right is taken away. Then it does what needs the
right, and yields where that is to be named (None: only in /readyz). The right is given back, and
the rest of it waits until all is well."""

CONTENT: dict[str, dict[str, Any]] = {
    "configmaps": {"data": {"key": "value"}},
    "secrets": {"data": encoded(key="value")},
    "serviceaccounts": {},
    "resourcequotas": {"spec": {"hard": {"pods": "99"}}},
    "limitranges": {"spec": {"limits": [{"type": "Container", "max": {"cpu": "8"}}]}},
    "roles": {"rules": []},
    "rolebindings": {
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "edit",
        }
    },
    "networkpolicies": {"spec": {"podSelector": {}}},
}
KINDS = {
    "configmaps": "ConfigMap",
    "secrets": "Secret",
    "serviceaccounts": "ServiceAccount",
    "resourcequotas": "ResourceQuota",
    "limitranges": "LimitRange",
    "roles": "Role",
    "rolebindings": "RoleBinding",
    "networkpolicies": "NetworkPolicy",
}


@dataclass
class Stage:
    """All that a case works with. Objects of a case have names of their own."""

    user: User
    operator: OperatorProcess
    proxy: FaultProxy
    """Stands between the operator and the API server, to break watches."""
    roles: Roles
    home: str
    source: str
    first: str
    second: str
    """Two namespaces to copy into."""
    team: Team
    """One where werf may deploy."""
    bare: Team
    """One without the account werf, so that Bundles there stop short of a Job."""

    @staticmethod
    def word(prefix: str = "t") -> str:
        return f"{prefix}{secrets.token_hex(3)}"

    # --- rules ---

    def make_source(self, plural: str, name: str, allow: str = "") -> None:
        metadata = {"annotations": {ALLOW: allow}} if allow else {}
        self.user.create(plural, self.source, name, metadata=metadata, **CONTENT[plural])

    def allow(self, plural: str, name: str, *namespaces: str) -> None:
        """Say where a source may go."""
        annotations = {ALLOW: ",".join(namespaces) or "-"}
        self.user.patch(plural, self.source, name, metadata={"annotations": annotations})

    def make_rule(self, plural: str, name: str, **spec: Any) -> Says:
        source = {"kind": KINDS[plural], "namespace": self.source, "name": name}
        targets = {"namespaces": [f"{self.first}*", f"{self.second}*"]}
        self.user.rule(self.home, name, {"source": source, "targets": targets, **spec})
        return lambda: str(self.user.condition(self.home, name).get("message"))

    def make_copies(self, plural: str, allow: str = "", **spec: Any) -> tuple[str, Says]:
        """Have a rule copy a source of its own; the name of both, and what the rule says."""
        name = self.word()
        self.make_source(plural, name, allow)
        says = self.make_rule(plural, name, **spec)
        self.user.wait_ready(self.home, name)
        return name, says

    def copied(self, plural: str, name: str, namespace: str, label: str | None = None) -> None:
        """Wait for a copy, with a label where one is named."""

        def is_there() -> bool:
            found = self.user.get(plural, namespace, name) or {}
            labels = found.get("metadata", {}).get("labels", {})
            return bool(found) and (label is None or label in labels)

        until(is_there, f"{plural} {namespace}/{name}")

    def canary(self, right: str) -> None:
        """A copy that has nothing to do with the right still follows its source."""
        plural = "configmaps" if "configmaps" not in right else "limitranges"
        label = self.word("l")
        self.user.patch(plural, self.source, "canary", metadata={"labels": {label: ""}})
        self.copied(plural, "canary", self.first, label)

    # --- Bundles ---

    def bundle(self, team: Team, name: str, **more: Any) -> Says:
        """A Bundle, and what it says."""
        team.bundle(name, repo="rights/app", **{"retry": {"backoff": "1s"}, **more})
        return lambda: str(team.condition(name).get("message"))

    def wait_failed(self, team: Team, name: str) -> None:
        """A deploy of it has failed, once or for good."""
        ends = ("DeployFailed", "Quarantined")
        until(
            lambda: team.condition(name).get("reason") in ends,
            lambda: json.dumps(team.status(name)),
        )
