"""An account that may do everything, under which werf runs, and what it wrote by the audit log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.e2e import rbac
from tests.e2e.operator_process import until
from tests.e2e.standin.conftest import Werf

from localcluster import Api, Cluster
from localcluster.audit import AuditEvent

LOCK = "configmaps/werf-synchronization"
PROBE = ("kubectl", "create", "configmap", "guard-probe", "--dry-run=server", "--validate=false")
_ADMISSION = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"


@dataclass
class Deployer:
    """A service account with all rights, and the werf that runs as it."""

    werf: Werf
    cluster: Cluster
    api: Api
    home: str

    @classmethod
    @contextmanager
    def made(cls, werf: Werf, cluster: Cluster, api: Api) -> Iterator[Deployer]:
        name, home = "deployer", werf.namespace
        api.create(f"/api/v1/namespaces/{home}/serviceaccounts", {"metadata": {"name": name}})
        rbac.bind(api, rbac.account(home, name), "cluster-admin", name=home)
        config = cluster.kubeconfig_for_service_account(home, name)
        werf.env["WERF_KUBE_CONFIG"] = str(config)
        yield cls(werf, cluster, api, home)
        api.delete(f"{rbac.RBAC}/clusterrolebindings/{home}")

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{self.home}:deployer"

    @contextmanager
    def recorded(self) -> Iterator[list[str]]:
        """Fill a list with what is written meanwhile, as `CREATE configmaps/x`, in its order."""
        found: list[str] = []
        requests = self.cluster.requests()
        yield found
        found += filter(None, map(_operation, requests.writes(user=self.user)))

    @contextmanager
    def refused(self, operation: str, name: str, when: str = "true") -> Iterator[None]:
        """Have the API server refuse one operation on objects of a name."""
        policy = self.home
        ours = f"request.userInfo.username == '{self.user}'"
        dry = "!(has(request.dryRun) && request.dryRun) || request.name == 'guard-probe'"
        no = f"request.operation == '{operation}' && request.name == '{name}' && ({when})"
        rules = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}
        spec: dict[str, Any] = {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rules]},
            "matchConditions": [
                {"name": "ours", "expression": ours},
                {"name": "real", "expression": dry},
            ],
            "validations": [
                {
                    "expression": f"request.name != 'guard-probe' && !({no})",
                    "message": "not approved",
                    "reason": "Forbidden",
                }
            ],
        }
        self.api.create(f"{_ADMISSION}ies", {"metadata": {"name": policy}, "spec": spec})
        bound = {"policyName": policy, "validationActions": ["Deny"]}
        self.api.create(f"{_ADMISSION}ybindings", {"metadata": {"name": policy}, "spec": bound})
        try:
            until(lambda: self.probe()[0] == 1, "the policy stands")
            yield
        finally:
            self.api.delete(f"{_ADMISSION}ybindings/{policy}")
            self.api.delete(f"{_ADMISSION}ies/{policy}")
            until(lambda: self.probe()[0] == 0, "the policy is gone")

    def probe(self) -> tuple[int, str]:
        """Ask whether a policy stands; the last report stays."""
        process = self.werf.start(*PROBE, "--namespace", self.home)
        output, _ = process.communicate(timeout=60)
        return process.returncode, output

    def uninstall(self, version: str) -> tuple[int, str]:
        """As that version does: from 3 on by `dismiss`."""
        place = ("--namespace", self.home)
        if version.startswith("2"):
            return self.werf.run("helm", "uninstall", "demo", *place, "--wait")
        return self.werf.run("dismiss", "--release", "demo", *place)

    def apply(self, tag: str = "1.0.0", *flags: str, **env: str) -> tuple[int, str]:
        return self.werf.run("bundle", "apply", *flags, WERF_TAG=tag, **env)


def config_map(name: str, hook: str = "", policy: str = "") -> str:
    """A template of a ConfigMap, or of a hook."""
    marks = f'helm.sh/hook: "{hook}"' if hook else ""
    marks += f', helm.sh/hook-delete-policy: "{policy}"' if policy else ""
    return (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, annotations: {{{marks}}}}}\n"
        "data: {greeting: {{ .Values.greeting }}}\n"
    )


def on(*names: str) -> list[str]:
    """`CREATE x` is that of a ConfigMap x."""
    return [each.replace(" ", " configmaps/") for each in names]


def without_lock(written: list[str]) -> list[str]:
    """What was written but to the lock, in the order of names."""
    return sorted(each for each in written if not each.endswith(LOCK))


def revision(*operations: str, name: str = "demo") -> list[str]:
    """`CREATE 2` is the creation of revision 2."""
    parts = (each.split() for each in operations)
    return [f"{done} secrets/sh.helm.release.v1.{name}.v{number}" for done, number in parts]


def _operation(event: AuditEvent) -> str:
    """What was written; empty for what wasn't."""
    if "dryRun=All" in event.uri or event.resource.startswith("selfsubject"):
        return ""
    if event.code not in (200, 201, 202):
        return ""
    operation = "CREATE" if event.code == 201 else event.verb.upper()
    return f"{'UPDATE' if operation == 'PATCH' else operation} {event.resource}/{event.name}"
