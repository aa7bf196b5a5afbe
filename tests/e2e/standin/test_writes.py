"""What werf writes to the API server, by its audit log: each line of docs/facts/guard.md."""

from collections.abc import Iterator

import pytest
from tests.e2e.standin.conftest import CONFIG_MAP, Charts, Werf, each_version, versions_alike
from tests.e2e.standin.deployer import (
    LOCK,
    Deployer,
    config_map,
    on,
    revision,
    without_lock,
)
from tests.e2e.standin.test_failures import ENDLESS_JOB

from localcluster import Api, Cluster
from localcluster.standin.settings import PLAYED


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
def test_a_hook_that_succeeded_and_is_there_is_deleted_twice(
    deployer: Deployer, charts: Charts, version: str
) -> None:
    charts.push(hook=config_map("hook", "pre-install,pre-upgrade"))
    charts.push("2.0.0", hook=config_map("hook", "pre-install,pre-upgrade", "hook-succeeded"))
    assert deployer.apply()[0] == 0, version

    with deployer.recorded() as written:
        assert deployer.apply("2.0.0")[0] == 0

    hook = [each for each in written if each.endswith("/hook")]
    assert hook == on("DELETE hook", "CREATE hook", "DELETE hook")


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


def test_a_dismiss_of_werf_2(deployer: Deployer, charts: Charts) -> None:
    """It is for projects: in a directory with werf.yaml."""
    deployer.werf.env[PLAYED] = "2.75.3"
    charts.push(**HOOKS)
    assert deployer.apply()[0] == 0
    (deployer.werf.directory / "werf.yaml").touch()

    with deployer.recorded() as written:
        code, output = deployer.uninstall("3")

    assert code == 0, output
    deleted = on("DELETE before", "DELETE after", "DELETE early", "DELETE demo-cm")
    made = on("CREATE before", "CREATE after")
    secrets = revision("UPDATE 1", "DELETE 1")
    assert without_lock(written) == sorted([*deleted, *made, *secrets])
    assert f"UPDATE {LOCK}" in written
