"""What werf writes to the API server, by its audit log: each line of docs/facts/guard.md."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from tests.e2e import rbac
from tests.e2e.conftest import POLICIES_ARE_BETA, skip_before_1_30
from tests.e2e.operator_process import until
from tests.e2e.standin.conftest import (
    CONFIG_MAP,
    ENDLESS_JOB,
    Charts,
    Werf,
    each_version,
    versions_alike,
)
from tests.e2e.standin.test_versions import failed, last_lines

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


@pytest.fixture
def deployer(werf: Werf, cluster: Cluster, api: Api) -> Iterator[Deployer]:
    with Deployer.made(werf, cluster, api) as deployer:
        yield deployer


@versions_alike
def test_deploys(deployer: Deployer, charts: Charts, version: str) -> None:
    """Create, update, delete, hooks and their policies, the history's limit, nothing to do."""
    hooks = {
        "pre": config_map("pre", "pre-install,pre-upgrade"),
        "gone": config_map("gone", "post-install,post-upgrade", "hook-succeeded"),
        "never": config_map("never", "pre-rollback,post-delete,test"),
    }
    charts.push(old=CONFIG_MAP.replace("-cm", "-old"), **hooks)
    charts.push("2.0.0", greeting="bye", new=CONFIG_MAP.replace("-cm", "-new"), **hooks)
    charts.push("3.0.0", greeting="bye", new=CONFIG_MAP.replace("-cm", "-new"))

    with deployer.recorded() as first:
        assert deployer.apply()[0] == 0, version
    with deployer.recorded() as second:
        assert deployer.apply("2.0.0")[0] == 0
    with deployer.recorded() as third:
        assert deployer.apply("3.0.0", WERF_RELEASES_HISTORY_MAX="2")[0] == 0
    with deployer.recorded() as nothing:
        assert deployer.apply("3.0.0")[0] == 0

    lock = [f"CREATE {LOCK}", f"UPDATE {LOCK}"]
    assert set(first) & set(lock) == set(lock)
    assert set(second) & set(lock) == {lock[1]}
    assert without_lock(first) == sorted(
        [
            *revision("CREATE 1", "UPDATE 1"),
            *on("CREATE demo-cm", "CREATE demo-old", "CREATE pre", "CREATE gone", "DELETE gone"),
        ]
    )
    assert without_lock(second) == sorted(
        [
            *revision("CREATE 2", "UPDATE 2", "UPDATE 1"),
            *on("UPDATE demo-cm", "CREATE demo-new", "DELETE demo-old"),
            *on("DELETE pre", "CREATE pre", "CREATE gone", "DELETE gone"),
        ]
    )
    place = second.index
    assert place(*revision("CREATE 2")) < place(*on("DELETE demo-old")) < place(*on("DELETE pre"))
    assert place(*on("DELETE pre")) < place(*on("CREATE pre")) < place(*on("UPDATE demo-cm"))
    assert place(*on("UPDATE demo-cm")) < place(*on("CREATE gone")) < place(*on("DELETE gone"))
    assert second[-1:] == [lock[1]]
    assert without_lock(third) == sorted(
        [
            *revision("CREATE 3", "UPDATE 3", "UPDATE 2", "DELETE 1"),
            *on("UPDATE demo-cm", "UPDATE demo-new"),
        ]
    )
    assert set(nothing) == {lock[1]}


@versions_alike
def test_a_missing_namespace_and_definitions_with_their_objects(
    deployer: Deployer, charts: Charts, api: Api, version: str
) -> None:
    space, group = f"{deployer.home}-new", f"{deployer.home}.example.com"
    names = "{plural: things, singular: thing, kind: Thing}"
    schema = "{openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}"
    served = f"[{{name: v1, served: true, storage: true, schema: {schema}}}]"
    definition = (
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
        f"metadata: {{name: things.{group}}}\n"
        f"spec: {{group: {group}, names: {names}, scope: Namespaced, versions: {served}}}\n"
    )
    crds = charts.directory / "demo" / "crds"
    crds.mkdir(parents=True)
    (crds / "things.yaml").write_text(definition)
    charts.push(thing=f"apiVersion: {group}/v1\nkind: Thing\nmetadata: {{name: t}}\n")
    deployer.werf.namespace = space

    with deployer.recorded() as written:
        code, output = deployer.apply(WERF_NAMESPACE=space)

    api.delete(f"/api/v1/namespaces/{space}")
    api.delete(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{group}")
    assert code == 0, output
    assert without_lock(written) == sorted(
        [
            f"CREATE namespaces/{space}",
            f"CREATE customresourcedefinitions/things.{group}",
            "CREATE things/t",
            *on("CREATE demo-cm"),
            *revision("CREATE 1", "UPDATE 1"),
        ]
    )


@versions_alike
def test_a_failed_deploy_and_a_rollback_by_itself(
    deployer: Deployer, charts: Charts, version: str
) -> None:
    back = config_map("back", "pre-rollback,post-rollback")
    charts.push(old=CONFIG_MAP.replace("-cm", "-old"), back=back)
    job = ENDLESS_JOB.replace(
        "restartPolicy", "terminationGracePeriodSeconds: 0\n      restartPolicy"
    )
    charts.push("2.0.0", greeting="bye", job=job, new=CONFIG_MAP.replace("-cm", "-new"))
    assert deployer.apply()[0] == 0

    with deployer.recorded() as written:
        code, output = deployer.apply("2.0.0", "--auto-rollback", WERF_TIMEOUT="3")

    assert code == 1, version
    assert "1 errors occurred" not in output
    assert without_lock(written) == sorted(
        [
            *revision("CREATE 2", "UPDATE 2", "CREATE 3", "UPDATE 3", "UPDATE 1"),
            *on("UPDATE demo-cm", "CREATE demo-new", "DELETE demo-old"),
            *on("UPDATE demo-cm", "DELETE demo-new", "CREATE demo-old", "CREATE back"),
            *("CREATE jobs/endless", "DELETE jobs/endless"),
        ]
    )
    assert deployer.werf.object("demo-cm")["data"]["greeting"] == "hello"
    assert deployer.werf.revisions("demo") == {1: "superseded", 2: "failed", 3: "deployed"}


HOOKS = {
    "before": config_map("before", "pre-delete"),
    "after": config_map("after", "post-delete"),
    "early": config_map("early", "pre-install"),
}


@each_version
def test_an_uninstall(deployer: Deployer, charts: Charts, version: str) -> None:
    charts.push(**HOOKS)
    charts.push("2.0.0", greeting="bye", **HOOKS)
    assert deployer.apply()[0] == 0
    assert deployer.apply("2.0.0")[0] == 0
    two = version.startswith("2")

    with deployer.recorded() as written:
        code, output = deployer.uninstall(version)

    assert code == 0, output
    ours = [*revision("UPDATE 2", "DELETE 1", "DELETE 2"), *on("DELETE demo-cm")]
    assert without_lock(written) == sorted([*ours, *on("CREATE before", "CREATE after")])
    assert (f"UPDATE {LOCK}" in written) is not two
    assert {"before", "after", "early"} <= deployer.werf.names()


# --- What werf says and leaves where the API server refuses a write: each line of the facts' table


DENIED = (
    "is forbidden: ValidatingAdmissionPolicy '{0}' with binding '{0}' denied request: not approved"
)
EXECUTED = "execute release install plan: wait for operations completion: execute operation: "


@pytest.fixture
def refusing(deployer: Deployer, api: Api) -> Deployer:
    skip_before_1_30(api, POLICIES_ARE_BETA)
    return deployer


def denied(refusing: Deployer, name: str, resource: str = "configmaps") -> str:
    return f'{resource} "{name}" {DENIED.format(refusing.home)}'


def applied(refusing: Deployer, version: str, doing: str, name: str) -> str:
    """The last line where a server-side apply is refused."""
    again = "" if version == "2.67.0" else "retryable on webhook error: server-side apply: "
    words = f'{doing} resource: server-side apply resource "ConfigMap/{name}": {again}'
    return failed(refusing.werf, f"{EXECUTED}{words}{denied(refusing, name)}")


@versions_alike
def test_refused_objects(refusing: Deployer, charts: Charts, version: str) -> None:
    """What comes before in a stage is done, the rest isn't; a refused delete is forgotten."""
    charts.push(old=CONFIG_MAP.replace("-cm", "-old"))
    new = {name: CONFIG_MAP.replace("-cm", f"-{name}") for name in ("a", "z")}
    charts.push("2.0.0", greeting="bye", **new)
    assert refusing.apply()[0] == 0

    with refusing.refused("DELETE", "demo-old"), refusing.recorded() as deleting:
        code, output = refusing.apply("2.0.0")

    layers = 'delete resource: delete resource "ConfigMap/demo-old": '
    words = f"{EXECUTED}{layers}{denied(refusing, 'demo-old')}"
    assert (code, last_lines(output)) == (1, failed(refusing.werf, words)), version
    assert without_lock(deleting) == sorted(revision("CREATE 2", "UPDATE 2"))
    assert refusing.werf.report["failedOperations"] == ["delete: ConfigMap/demo-old"]
    with refusing.refused("CREATE", "demo-z"), refusing.recorded() as creating:
        code, output = refusing.apply("2.0.0")
    assert (code, last_lines(output)) == (1, applied(refusing, version, "create", "demo-z"))
    assert without_lock(creating) == sorted(
        [*revision("CREATE 3", "UPDATE 3"), *on("CREATE demo-a", "UPDATE demo-cm")]
    )
    assert refusing.apply("2.0.0")[0] == 0
    assert "demo-old" in refusing.werf.names(), "nobody deletes it any more"
    with refusing.refused("UPDATE", "demo-cm"), refusing.recorded() as updating:
        code, output = refusing.apply()
    assert (code, last_lines(output)) == (1, applied(refusing, version, "apply", "demo-cm"))
    assert set(on("DELETE demo-a", "DELETE demo-z")) <= set(updating), "an earlier stage"
    assert refusing.werf.revisions("demo")[5] == "failed"


@versions_alike
def test_a_missing_namespace_that_may_not_be_made(
    refusing: Deployer, charts: Charts, version: str
) -> None:
    charts.push()
    space = f"{refusing.home}-new"

    with refusing.refused("CREATE", space):
        code, output = refusing.apply(WERF_NAMESPACE=space)

    assert code == 1
    assert denied(refusing, space, "namespaces") in last_lines(output), version


@versions_alike
def test_the_lock_is_tried_ten_times(refusing: Deployer, charts: Charts, version: str) -> None:
    charts.push()
    assert refusing.apply()[0] == 0
    name = LOCK.partition("/")[2]

    with refusing.refused("UPDATE", name):
        code, output = refusing.apply(COPYRATOR_WERF_PACE="0.01")

    assert (code, output.count("unable to acquire lock ")) == (1, 10), version
    assert denied(refusing, name) in last_lines(output)


@versions_alike
def test_the_repair_of_managed_fields(
    refusing: Deployer, charts: Charts, cluster: Cluster, version: str
) -> None:
    charts.push()
    assert refusing.apply()[0] == 0
    edit = [cluster.bin_dir / "kubectl", "edit", "configmap", "demo-cm", "-n", refusing.home]
    env = {**refusing.werf.env, **cluster.environment(), "KUBE_EDITOR": "sed -i s/hello/edited/"}
    subprocess.run(edit, env=env, check=True, capture_output=True)

    with refusing.refused("UPDATE", "demo-cm"), refusing.recorded() as written:
        code, output = refusing.apply()

    assert code == 1
    fixed = 'fix managed fields for resource "ConfigMap/demo-cm": patch managed fields: '
    assert f"{fixed}{denied(refusing, 'demo-cm')}" in last_lines(output), version
    assert (without_lock(written), refusing.werf.report_file.exists()) == ([], False)
    with refusing.recorded() as written:
        assert refusing.apply()[0] == 0
    repaired = on("UPDATE demo-cm", "UPDATE demo-cm")
    assert without_lock(written) == sorted(
        [*repaired, *revision("CREATE 2", "UPDATE 2", "UPDATE 1")]
    )


@each_version
def test_a_refused_uninstall(refusing: Deployer, charts: Charts, version: str) -> None:
    """werf 2 forgets a hook after the deletion; what it may not delete it deletes the next time."""
    hooks = {"a": config_map("before", "pre-delete"), "b": config_map("after", "post-delete")}
    charts.push(**hooks)
    assert refusing.apply()[0] == 0
    two = version.startswith("2")

    with refusing.refused("CREATE", "before"), refusing.recorded() as early:
        code, output = refusing.uninstall(version)

    assert (code, denied(refusing, "before") in last_lines(output)) == (1, True)
    assert "demo-cm" in refusing.werf.names()
    assert set(without_lock(early)) == set(revision("UPDATE 1")), version
    with refusing.refused("DELETE", "demo-cm"):
        code, output = refusing.uninstall(version)
    said = last_lines(output)
    assert code == 1
    assert said.endswith("Error: failed to delete release: demo" if two else "not approved")
    with refusing.refused("CREATE", "after"):
        code, output = refusing.uninstall(version)
    assert (code, denied(refusing, "after") in last_lines(output)) == (1, True)
    assert "demo-cm" not in refusing.werf.names()
    assert bool(refusing.werf.revisions("demo")) is not two
    if not two:
        assert refusing.uninstall(version)[0] == 0
        assert "after" in refusing.werf.names()
