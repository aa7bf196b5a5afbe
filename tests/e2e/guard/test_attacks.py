"""What a pod of a guarded Job can't write, whatever its account may do. Requests, no werf."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from tests.e2e.guard.conftest import Guarded, GuardedJob, config, ops
from tests.e2e.rbac import RBAC

from copyrator.bundles.jobs.rights import ServiceAccount
from copyrator.bundles.plans.guard.listing import NOT_APPROVED, NOT_AS_ACCOUNT, GuardedUninstall
from localcluster import Api

LISTED = (
    "create ::ConfigMap:listed",
    "create :apps:Deployment:web",
    "delete ::ConfigMap:old",
    "recreate :batch:Job:mig",
)


@pytest.fixture(scope="module")
def team(guarded: Guarded) -> str:
    """Where an account with all rights deploys."""
    return guarded.team()


@pytest.fixture(scope="module")
def job(guarded: Guarded, team: str) -> GuardedJob:
    """With a listed ConfigMap and Deployment that exist."""
    job = guarded.job(team, *LISTED)
    job.person.apply(config("listed", team))
    job.person.apply(deployment("web", team, "other"))
    return job


def deployment(name: str, namespace: str, account: str) -> dict[str, Any]:
    found = pods(namespace, {"serviceAccountName": account}, name)
    return next(one for one in found if one["kind"] == "Deployment")


def cluster_role(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [],
    }


def core(team: str, plural: str, name: str = "", sub: str = "") -> str:
    return "/".join(filter(None, (f"/api/v1/namespaces/{team}/{plural}", name, sub)))


Attack = Callable[[GuardedJob], object]
TOKEN = {
    "apiVersion": "authentication.k8s.io/v1",
    "kind": "TokenRequest",
    "spec": {"expirationSeconds": 3600},
}
SCALE = {"spec": {"replicas": 3}}
ATTACKS: dict[str, tuple[Attack, str]] = {
    "an object that isn't listed": (
        lambda job: job.person.apply(config("other", job.team)),
        "CREATE//ConfigMap/TEAM/other",
    ),
    "with a name that the API server makes": (
        lambda job: job.person.ask(
            "POST", core(job.team, "configmaps"), {"metadata": {"generateName": "listed"}}
        ),
        "CREATE//ConfigMap/TEAM/listed",
    ),
    "the same name of another kind": (
        lambda job: job.person.apply(config("listed", job.team) | {"kind": "Secret"}),
        "CREATE//Secret/TEAM/listed",
    ),
    "a listed one's delete": (
        lambda job: job.person.delete(core(job.team, "configmaps", "listed")),
        "DELETE//ConfigMap/TEAM/listed",
    ),
    "a collection's delete": (
        lambda job: job.person.delete(core(job.team, "configmaps")),
        "DELETE//ConfigMap/TEAM/",
    ),
    "a token of the account": (
        lambda job: job.person.ask(
            "POST", core(job.team, "serviceaccounts", "werf", "token"), TOKEN
        ),
        "CREATE/authentication.k8s.io/TokenRequest:token/TEAM/werf",
    ),
    "a command in a pod": (
        lambda job: job.person.ask(
            "POST", core(job.team, "pods", job.pod, "exec"), command="id", container="werf"
        ),
        "CONNECT//PodExecOptions:exec/TEAM/POD",
    ),
    "a listed one's scale": (
        lambda job: job.person.merge(
            f"/apis/apps/v1/namespaces/{job.team}/deployments/web/scale", SCALE
        ),
        "UPDATE/autoscaling/Scale:scale/TEAM/web",
    ),
    "another namespace": (
        lambda job: job.person.apply(config("listed", "default")),
        "CREATE//ConfigMap/default/listed",
    ),
    "a namespace": (
        lambda job: job.person.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "evil"}}
        ),
        "CREATE//Namespace/evil/evil",
    ),
    "the end of the release's namespace": (
        lambda job: job.person.delete(f"/api/v1/namespaces/{job.team}"),
        "DELETE//Namespace/TEAM/TEAM",
    ),
    "a cluster-scoped object": (
        lambda job: job.person.apply(cluster_role("evil")),
        "CREATE/rbac.authorization.k8s.io/ClusterRole//evil",
    ),
    "a pod of a name like its own": (
        lambda job: job.person.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "free", "namespace": job.team},
                "spec": {
                    "serviceAccountName": "werf",
                    "containers": [{"name": "a", "image": "a"}],
                },
            }
        ),
        "CREATE//Pod/TEAM/free",
    ),
    "another release's revision": (
        lambda job: job.person.apply(secret("sh.helm.release.v1.other.v2", job.team)),
        "CREATE//Secret/TEAM/sh.helm.release.v1.other.v2",
    ),
    "a release's former revision": (
        lambda job: job.person.apply(secret("sh.helm.release.v1.shop.v9", job.team)),
        "CREATE//Secret/TEAM/sh.helm.release.v1.shop.v9",
    ),
}


def secret(name: str, namespace: str, **more: Any) -> dict[str, Any]:
    return config(name, namespace) | {"kind": "Secret"} | more


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_isnt_on_the_list_is_refused_and_named(job: GuardedJob, attack: str) -> None:
    act, named = ATTACKS[attack]
    named = named.replace("TEAM", job.team).replace("POD", job.pod)
    said = job.refused(lambda: act(job))
    if attack == "with a name that the API server makes":
        assert said.startswith(NOT_APPROVED + named)
    else:
        assert said == NOT_APPROVED + named


def test_what_is_on_the_list_passes(job: GuardedJob, team: str, api: Api) -> None:
    api.create(core(team, "configmaps"), {"metadata": {"name": "old"}})
    job.person.apply(config("listed", team, a="1"))
    job.person.delete(core(team, "configmaps", "old"))
    job.person.apply(config("werf-synchronization", team))
    job.person.apply(config("werf-synchronization", team, lock="held"))
    for revision in (1, 2):
        job.person.apply(secret(f"sh.helm.release.v1.shop.v{revision}", team))
    api.create(core(team, "secrets"), {"metadata": {"name": "sh.helm.release.v1.shop.v7"}})
    for revision in (1, 7):
        job.person.delete(core(team, "secrets", f"sh.helm.release.v1.shop.v{revision}"))
    (mig,) = (one for one in pods(team, {}, "mig") if one["kind"] == "Job")
    job.person.create(mig)
    job.person.delete(f"/apis/batch/v1/namespaces/{team}/jobs/mig")


def test_dry_runs_and_questions_pass(job: GuardedJob, team: str) -> None:
    """werf plans by dry runs; the Job's script asks whether Events may be read."""
    job.person.apply(config("other", team), dryRun="All")
    asked = {"spec": {"resourceAttributes": {"verb": "list", "resource": "events"}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert job.person.ask("POST", path, asked)["status"]["allowed"]


def test_the_probe_of_a_namespace_is_refused_too(job: GuardedJob) -> None:
    probe = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "guard-probe"}}
    said = job.refused(lambda: job.person.create(probe, dryRun="All"))
    assert said == f"{NOT_APPROVED}CREATE//Namespace/guard-probe/guard-probe"


ODD = ("a:b", "a-.b", "a_b", "a b", " a:b", "a:b ", "A:B", "a*b", "'a'", "x" * 250)
"""Names that RBAC allows."""


def test_no_odd_name_counts_as_another(guarded: Guarded, team: str, api: Api) -> None:
    mark, roles = secrets.token_hex(3), f"{RBAC}/clusterroles"  # other runs have other names
    every = [f"{mark}{name}"[:250] for name in ODD]
    for own in every:
        job = guarded.job(team, f"create :rbac.authorization.k8s.io:ClusterRole:{own}")
        for name in every:
            post = {"metadata": {"name": name}, "rules": []}
            said = job.refused(lambda: job.person.ask("POST", roles, post))  # noqa: B023
            expected = f"{NOT_APPROVED}CREATE/rbac.authorization.k8s.io/ClusterRole//{name}"
            assert said == ("" if name == own else expected.rstrip())  # not shown, but told apart
        api.delete(f"{roles}/{quote(own, safe='')}")


def test_a_name_with_a_line_break_is_refused_and_not_shown(
    guarded: Guarded, job: GuardedJob
) -> None:
    role = cluster_role("evil\nCUD")
    said = job.refused(lambda: job.person.create(role))
    assert said == "not approved: a name that can't be shown"


@pytest.mark.parametrize("way", ["serviceAccountName", "serviceAccount"])
@pytest.mark.parametrize("account", ["werf", "default"])
def test_no_pod_template_runs_as_the_account(guarded: Guarded, way: str, account: str) -> None:
    team = guarded.team(account=account)
    job = guarded.job(
        team,
        *(f"create :{kind}:x" for kind in _KINDS.values()),
        "create ::Secret:x",
        account=account,
    )
    for manifest in pods(team, {way: account}):
        kind = _KINDS[manifest["kind"]].replace(":", "/")
        named = f"{NOT_AS_ACCOUNT}CREATE/{kind}/{team}/x"
        assert job.refused(lambda one=manifest: job.person.create(one)) == named
    for manifest in pods(team, {}):
        said = job.refused(lambda one=manifest: job.person.create(one))
        assert bool(said) == (account == "default"), manifest["kind"]
    if account == "default":
        return
    said = job.refused(lambda: job.person.create(token_secret(team, account)))
    assert said == f"{NOT_AS_ACCOUNT}CREATE//Secret/{team}/x"
    job.person.create(token_secret(team, "default"))


_KINDS = {
    "Pod": ":Pod",
    "ReplicationController": ":ReplicationController",
    "Deployment": "apps:Deployment",
    "StatefulSet": "apps:StatefulSet",
    "DaemonSet": "apps:DaemonSet",
    "ReplicaSet": "apps:ReplicaSet",
    "Job": "batch:Job",
    "CronJob": "batch:CronJob",
}


def pods(namespace: str, account: dict[str, str], name: str = "x") -> Iterator[dict[str, Any]]:
    """An object of each kind that makes pods; none of them does."""
    containers: dict[str, Any] = {"containers": [{"name": "a", "image": "a"}]}
    spec = account | containers
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    of_job = {"template": {"spec": spec | {"restartPolicy": "Never"}}}
    selected = {"selector": {"matchLabels": labels}, "template": template}
    idle = {"nodeSelector": {"none": "such"}}
    specs: dict[str, dict[str, Any]] = {
        "Pod": spec | {"schedulerName": "nobody"},
        "ReplicationController": {"replicas": 0, "selector": labels, "template": template},
        "Deployment": selected | {"replicas": 0},
        "StatefulSet": selected | {"replicas": 0, "serviceName": "x"},
        "DaemonSet": selected | {"template": template | {"spec": spec | idle}},
        "ReplicaSet": selected | {"replicas": 0},
        "Job": of_job | {"suspend": True},
        "CronJob": {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": of_job}},
    }
    for kind, found in specs.items():
        group = _KINDS[kind].partition(":")[0]
        yield {
            "apiVersion": f"{group}/v1" if group else "v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace},
            "spec": found,
        }


def token_secret(namespace: str, account: str) -> dict[str, Any]:
    found = secret("x", namespace, type="kubernetes.io/service-account-token")
    found["metadata"]["annotations"] = {"kubernetes.io/service-account.name": account}
    return found


def test_what_was_approved_to_run_as_the_account_does(guarded: Guarded, team: str) -> None:
    lines = (*(f"create :{kind}:own" for kind in _KINDS.values()), "create ::Secret:x")
    job = guarded.job(team, *lines, as_account=lines)
    for manifest in pods(team, {"serviceAccountName": "werf"}, "own"):
        job.person.create(manifest)
    job.person.create(token_secret(team, "werf"))


def test_an_update_cant_make_a_pod_template_run_as_the_account(job: GuardedJob, team: str) -> None:
    said = job.refused(lambda: job.person.apply(deployment("web", team, "werf")))
    assert said == f"{NOT_AS_ACCOUNT}UPDATE/apps/Deployment/{team}/web"


def test_an_account_of_the_same_name_elsewhere_is_another(guarded: Guarded, team: str) -> None:
    elsewhere = guarded.team(admin=False)
    job = guarded.job(team, f"create {elsewhere}:apps:Deployment:web")
    job.person.apply(deployment("web", elsewhere, "werf"))


def test_an_uninstall_deletes_what_was_named_and_nothing_else(guarded: Guarded, api: Api) -> None:
    team = guarded.team()
    uninstall = GuardedUninstall(
        account=ServiceAccount(team, "werf"),
        release="shop",
        namespace=team,
        inventory=ops("create ::ConfigMap:mine"),
        hooks=ops("create ::ConfigMap:hook"),
    )
    job = guarded.start(f"shop-uninstall-{secrets.token_hex(5)}", uninstall)
    for name in ("mine", "other", "sh.helm.release.v1.shop.v12345"):
        plural = "secrets" if name.startswith("sh.") else "configmaps"
        api.create(core(team, plural), {"metadata": {"name": name}})
    job.person.apply(secret("sh.helm.release.v1.shop.v12345", team))
    job.person.delete(core(team, "secrets", "sh.helm.release.v1.shop.v12345"))
    job.person.delete(core(team, "configmaps", "mine"))
    job.person.apply(config("hook", team))
    job.person.delete(core(team, "configmaps", "hook"))
    said = job.refused(lambda: job.person.delete(core(team, "configmaps", "other")))
    assert said == f"{NOT_APPROVED}DELETE//ConfigMap/{team}/other"
    said = job.refused(lambda: job.person.apply(config("mine", team)))
    assert said == f"{NOT_APPROVED}CREATE//ConfigMap/{team}/mine"


def test_an_object_in_another_namespace_is_written_only_there(guarded: Guarded) -> None:
    team, home, other = guarded.team(), guarded.team(admin=False), guarded.team(admin=False)
    job = guarded.job(
        team,
        "create ::ConfigMap:own",
        f"create {other}::ConfigMap:far",
        release_namespace=home,
    )
    job.person.apply(config("own", home))
    job.person.apply(config("far", other))
    for name, namespace in (("own", team), ("own", other), ("far", home), ("far", team)):
        said = job.refused(
            lambda name=name, namespace=namespace: job.person.apply(config(name, namespace))
        )
        assert said == f"{NOT_APPROVED}CREATE//ConfigMap/{namespace}/{name}"


def test_a_list_of_the_most_that_a_plan_may_have_holds(guarded: Guarded, team: str) -> None:
    """The API server limits what an expression may cost; so does a long name."""
    lines = [f"recreate ns:apps:Deployment:{'x' * 160}{number:04}" for number in range(5_000)]
    long = "y" * 253
    job = guarded.job(team, *lines, f"create ::ConfigMap:{long}", auto_rollback=True)
    job.person.apply(config(long, team))
    other = "z" * 253
    said = job.refused(lambda: job.person.apply(config(other, team)))
    assert said == f"{NOT_APPROVED}CREATE//ConfigMap/{team}/{other}"
