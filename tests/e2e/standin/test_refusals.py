"""What werf says and leaves where the API server refuses a write: each line of the facts' table."""

import subprocess
from collections.abc import Iterator

import pytest
from tests.e2e.conftest import POLICIES_ARE_BETA, skip_before_1_30
from tests.e2e.standin.conftest import (
    CONFIG_MAP,
    Charts,
    Werf,
    detail,
    each_version,
    versions_alike,
)
from tests.e2e.standin.deployer import (
    LOCK,
    PROBE,
    Deployer,
    config_map,
    on,
    revision,
    without_lock,
)
from tests.e2e.standin.test_versions import failed, last_lines

from localcluster import Api, Cluster

DENIED = (
    "is forbidden: ValidatingAdmissionPolicy '{0}' with binding '{0}' denied request: not approved"
)
EXECUTED = "execute release install plan: wait for operations completion: execute operation: "


@pytest.fixture
def deployer(werf: Werf, cluster: Cluster, api: Api) -> Iterator[Deployer]:
    skip_before_1_30(api, POLICIES_ARE_BETA)
    with Deployer.made(werf, cluster, api) as deployer:
        yield deployer


def denied(deployer: Deployer, name: str, resource: str = "configmaps") -> str:
    return f'{resource} "{name}" {DENIED.format(deployer.home)}'


def applied(deployer: Deployer, version: str, doing: str, name: str) -> str:
    """The last line where a server-side apply is refused."""
    again = "" if version == "2.67.0" else "retryable on webhook error: server-side apply: "
    words = f'{doing} resource: server-side apply resource "ConfigMap/{name}": {again}'
    return failed(deployer.werf, f"{EXECUTED}{words}{denied(deployer, name)}")


@versions_alike
def test_objects(deployer: Deployer, charts: Charts, version: str) -> None:
    """What comes before in a stage is done, the rest isn't; a refused delete is forgotten."""
    charts.push(old=CONFIG_MAP.replace("-cm", "-old"))
    new = {name: CONFIG_MAP.replace("-cm", f"-{name}") for name in ("a", "z")}
    charts.push("2.0.0", greeting="bye", **new)
    assert deployer.apply()[0] == 0

    with deployer.refused("DELETE", "demo-old"), deployer.recorded() as deleting:
        code, output = deployer.apply("2.0.0")

    layers = 'delete resource: delete resource "ConfigMap/demo-old": '
    words = f"{EXECUTED}{layers}{denied(deployer, 'demo-old')}"
    assert (code, last_lines(output)) == (1, failed(deployer.werf, words)), version
    assert without_lock(deleting) == sorted(revision("CREATE 2", "UPDATE 2"))
    assert deployer.werf.report["failedOperations"] == ["delete: ConfigMap/demo-old"]
    with deployer.refused("CREATE", "demo-z"), deployer.recorded() as creating:
        code, output = deployer.apply("2.0.0")
    assert (code, last_lines(output)) == (1, applied(deployer, version, "create", "demo-z"))
    assert without_lock(creating) == sorted(
        [*revision("CREATE 3", "UPDATE 3"), *on("CREATE demo-a", "UPDATE demo-cm")]
    )
    assert deployer.apply("2.0.0")[0] == 0
    assert "demo-old" in deployer.werf.names(), "nobody deletes it any more"
    with deployer.refused("UPDATE", "demo-cm"), deployer.recorded() as updating:
        code, output = deployer.apply()
    assert (code, last_lines(output)) == (1, applied(deployer, version, "apply", "demo-cm"))
    assert set(on("DELETE demo-a", "DELETE demo-z")) <= set(updating), "an earlier stage"
    assert deployer.werf.revisions("demo")[5] == "failed"


@versions_alike
def test_hooks(deployer: Deployer, charts: Charts, version: str) -> None:
    events = "pre-install,pre-upgrade"
    charts.push(hook=config_map("hook", events))
    charts.push("2.0.0", greeting="bye", hook=config_map("hook", events, "hook-succeeded"))
    assert deployer.apply()[0] == 0

    with deployer.refused("DELETE", "hook"), deployer.recorded() as before:
        code, output = deployer.apply("2.0.0")

    layers = 'delete resource: delete resource "ConfigMap/hook": '
    words = failed(deployer.werf, f"{EXECUTED}{layers}{denied(deployer, 'hook')}")
    assert (code, last_lines(output)) == (1, words), version
    assert without_lock(before) == sorted(revision("CREATE 2", "UPDATE 2"))
    with deployer.refused("CREATE", "hook"), deployer.recorded() as between:
        code, output = deployer.apply("2.0.0")
    assert (code, last_lines(output)) == (1, applied(deployer, version, "create", "hook"))
    assert without_lock(between) == sorted([*revision("CREATE 3", "UPDATE 3"), *on("DELETE hook")])
    assert "hook" not in deployer.werf.names()
    with deployer.refused("DELETE", "hook"), deployer.recorded() as after:
        code, output = deployer.apply("2.0.0")
    assert (code, last_lines(output)) == (1, words)
    assert without_lock(after) == sorted([*revision("CREATE 4", "UPDATE 4"), *on("CREATE hook")])


@versions_alike
def test_a_refused_create_is_not_rolled_back(
    deployer: Deployer, charts: Charts, version: str
) -> None:
    charts.push()
    charts.push("2.0.0", greeting="bye", z=CONFIG_MAP.replace("-cm", "-z"))
    assert deployer.apply()[0] == 0

    with deployer.refused("CREATE", "demo-z"), deployer.recorded() as written:
        code, output = deployer.apply("2.0.0", "--auto-rollback")

    assert code == 1
    assert "2 errors occurred" in last_lines(output), version
    assert 'get resource "ConfigMap/demo-z" from client cache: ' in output
    assert without_lock(written) == sorted(
        [*revision("CREATE 2", "UPDATE 2"), *on("UPDATE demo-cm")]
    )


@versions_alike
def test_a_missing_namespace(deployer: Deployer, charts: Charts, version: str) -> None:
    charts.push()
    space = f"{deployer.home}-new"

    with deployer.refused("CREATE", space):
        code, output = deployer.apply(WERF_NAMESPACE=space)

    assert code == 1
    assert denied(deployer, space, "namespaces") in last_lines(output), version


@versions_alike
def test_the_lock_is_tried_ten_times(deployer: Deployer, charts: Charts, version: str) -> None:
    charts.push()
    assert deployer.apply()[0] == 0
    name = LOCK.partition("/")[2]

    with deployer.refused("UPDATE", name):
        code, output = deployer.apply(COPYRATOR_WERF_PACE="0.01")

    assert (code, output.count("unable to acquire lock ")) == (1, 10), version
    assert denied(deployer, name) in last_lines(output)


@versions_alike
def test_what_sounds_like_a_webhook_is_tried_again_without_a_word(
    deployer: Deployer, charts: Charts, version: str
) -> None:
    name = "failed calling webhook"
    rbac = "rbac.authorization.k8s.io"
    charts.push(role=f"apiVersion: {rbac}/v1\nkind: Role\nmetadata: {{name: {name}}}\nrules: []\n")

    with deployer.refused("CREATE", name):
        requests = deployer.cluster.requests()
        code, output = deployer.apply(COPYRATOR_WERF_PACE="0.01")

    tried = requests.writes(user=deployer.user, resource="roles")
    assert (code, len(tried)) == (1, 1 if version == "2.67.0" else 120)
    assert output.count("denied request") == 1, "in the last line"


@versions_alike
def test_the_repair_of_managed_fields(
    deployer: Deployer, charts: Charts, cluster: Cluster, version: str
) -> None:
    charts.push()
    assert deployer.apply()[0] == 0
    edit = [cluster.bin_dir / "kubectl", "edit", "configmap", "demo-cm", "-n", deployer.home]
    env = {**deployer.werf.env, **cluster.environment(), "KUBE_EDITOR": "sed -i s/hello/edited/"}
    subprocess.run(edit, env=env, check=True, capture_output=True)

    with deployer.refused("UPDATE", "demo-cm"), deployer.recorded() as written:
        code, output = deployer.apply()

    assert code == 1
    fixed = 'fix managed fields for resource "ConfigMap/demo-cm": patch managed fields: '
    assert f"{fixed}{denied(deployer, 'demo-cm')}" in last_lines(output), version
    assert (without_lock(written), deployer.werf.report_file.exists()) == ([], False)
    with deployer.recorded() as written:
        assert deployer.apply()[0] == 0
    repaired = on("UPDATE demo-cm", "UPDATE demo-cm")
    assert without_lock(written) == sorted(
        [*repaired, *revision("CREATE 2", "UPDATE 2", "UPDATE 1")]
    )


@each_version
def test_an_uninstall(deployer: Deployer, charts: Charts, version: str) -> None:
    """werf 2 forgets a hook after the deletion; what it may not delete it deletes the next time."""
    hooks = {"a": config_map("before", "pre-delete"), "b": config_map("after", "post-delete")}
    charts.push(**hooks)
    assert deployer.apply()[0] == 0
    two = version.startswith("2")

    with deployer.refused("CREATE", "before"), deployer.recorded() as early:
        code, output = deployer.uninstall(version)

    assert (code, denied(deployer, "before") in last_lines(output)) == (1, True)
    assert "demo-cm" in deployer.werf.names()
    assert set(without_lock(early)) == set(revision("UPDATE 1")), version
    with deployer.refused("DELETE", "demo-cm"):
        code, output = deployer.uninstall(version)
    said = last_lines(output)
    assert code == 1
    assert said.endswith("Error: failed to delete release: demo" if two else "not approved")
    with deployer.refused("CREATE", "after"):
        code, output = deployer.uninstall(version)
    assert (code, denied(deployer, "after") in last_lines(output)) == (1, True)
    assert "demo-cm" not in deployer.werf.names()
    assert bool(deployer.werf.revisions("demo")) is not two
    if not two:
        assert deployer.uninstall(version)[0] == 0
        assert "after" in deployer.werf.names()


@detail
def test_the_probe(deployer: Deployer, cluster: Cluster, api: Api) -> None:
    space = ("kubectl", "create", "namespace", "guard-probe", *PROBE[-2:])
    assert deployer.probe() == (0, "configmap/guard-probe created (server dry run)\n")
    assert deployer.werf.run(*space) == (0, "namespace/guard-probe created (server dry run)\n")

    with deployer.refused("CREATE", "guard-probe"):
        answers = [deployer.probe(), deployer.werf.run(*space)]

    for (code, output), resource in zip(answers, ("configmaps", "namespaces"), strict=True):
        assert (code, denied(deployer, "guard-probe", resource) in output) == (1, True)
    code, output = deployer.werf.run(*PROBE, "--namespace", "nowhere")
    assert (code, 'namespaces "nowhere" not found' in output) == (1, True)
    account = {"metadata": {"name": "nobody"}}
    api.create(f"/api/v1/namespaces/{deployer.home}/serviceaccounts", account)
    nobody = cluster.kubeconfig_for_service_account(deployer.home, "nobody")
    deployer.werf.env["WERF_KUBE_CONFIG"] = str(nobody)
    code, output = deployer.probe()
    assert (code, "cannot create resource" in output) == (1, True)
    assert "denied request" not in output
