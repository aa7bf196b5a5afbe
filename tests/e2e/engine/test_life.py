"""A plain Bundle's life, from its first poll to its uninstall: one Bundle, in the tests' order.

Each test finds it deployed and leaves it so. What never deploys has Bundles of its own at the end.
"""

import base64
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.e2e.bundles.conftest import Operator, Shop, Team, operating
from tests.e2e.bundles.private_registry import PASSWORD, USER
from tests.e2e.engine.conftest import BROKEN, Registry, conditions, events, noting, written
from tests.e2e.operator_process import until
from tests.e2e.person import Person

from localcluster import Cluster
from localcluster.bundle import junk_tags

pytestmark = [pytest.mark.promise, pytest.mark.usefixtures("operator")]

TTL = 600
MANAGER = "field manager python-urllib3"
"""Of what these tests write: that of a client that gives none is made of its User-Agent."""
BACKOFF = timedelta(seconds=2)
DEPLOYED = {
    "Ready": ("True", "Deployed"),
    "Reconciling": ("False", "Deployed"),
    "Stalled": ("False", "Deployed"),
}
FINALIZER = Counter({"patch bundles": 1})
DEPLOY = Counter({"patch bundles/status": 2, "create jobs": 1, "patch jobs": 1})
"""What a deploy writes beside Events: the attempt and its outcome, the Job and its TTL."""
UNINSTALL = Counter({"patch bundles/status": 1, "create jobs": 1, "patch jobs": 1}) + FINALIZER


@pytest.fixture(scope="module")
def operator(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    often = {"WERF_OPERATOR_TIMER_INTERVAL": "1", "WERF_OPERATOR_JOBS_TTL": str(TTL)}
    with operating(cluster, log, often) as operator:
        yield operator


@pytest.fixture(scope="module")
def registry(cluster: Cluster) -> Iterator[Registry]:
    with noting(cluster, password=True) as registry:
        yield registry


@dataclass
class First:
    """What the first deploy of the Bundle left."""

    digest: str
    bundle: dict[str, Any]
    status: dict[str, Any]
    job: dict[str, Any]
    made: dict[str, Any]
    """The ConfigMap of the release."""
    since: int
    """The place in the audit log before it."""


@pytest.fixture(scope="module")
def first(lasting_team: Team, operator: Operator, registry: Registry) -> First:
    team = lasting_team
    login = {"username": USER, "password": PASSWORD}
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in login.items()}
    team.create("secrets", "login", data=encoded)
    team.create("configmaps", "values", data={"a.yaml": "greeting: hello"})
    digest = team.publish("1.0.0", "first")
    since = team.cluster.audit_offset()
    bundle = team.bundle(
        "shop",
        registry=registry.host,
        auth="login",
        values="values",
        env={"WERF_SET_REPLICAS": "replicas=2", "DEBUG": True, "my-var": "x", "a.b": 1},
        metadata={
            "labels": {"app.kubernetes.io/part-of": "shop", "private": "yes"},
            "annotations": {"argocd.argoproj.io/tracking-id": "it", "private": "yes"},
        },
        retry={"limit": 1, "backoff": "2s"},
    )
    status = team.wait_deployed("shop", digest)
    wait_for_ttl(team)
    (job,) = team.jobs("shop")
    return First(digest, bundle, status, job, team.get("configmaps", "shop-app") or {}, since)


@pytest.fixture
def shop(lasting_team: Team, first: First) -> Shop:
    wait_for_ttl(lasting_team)
    return Shop(lasting_team)


def test_it_deploys_an_exact_tag_and_says_so(first: First, lasting_team: Team) -> None:
    digest, status = first.digest, first.status
    assert first.made["data"] == {"text": "first", "greeting": "hello"}
    assert status["target"] == {"digest": digest, "version": "1.0.0"}
    assert status["deploy"] == status["target"] | {"shortDigest": digest[7:19]}
    assert (status["ready"], status["observedGeneration"]) == (1, 1)
    assert status["available"].items() >= status["target"].items()
    deployed, attempted = status["deployed"], status["attempted"]
    assert (deployed["digest"], deployed["revision"], deployed["verified"]) == (digest, 1, True)
    assert (attempted["attempt"], attempted["outcome"]) == (1, "Succeeded")
    assert attempted["job"] == first.job["metadata"]["name"]
    assert [(one["outcome"], one["reason"]) for one in status["history"]] == [
        ("Succeeded", "Deployed")
    ]
    assert conditions(lasting_team, "shop") == DEPLOYED
    assert causes(lasting_team) == ["NewVersion"]


def test_its_job_is_the_one_that_the_contract_describes(first: First, lasting_team: Team) -> None:
    metadata, spec = first.job["metadata"], first.job["spec"]
    assert metadata["annotations"]["operator.werf.dev/deployment"] == "shop"
    assert metadata["ownerReferences"][0]["uid"] == first.bundle["metadata"]["uid"]
    assert spec["backoffLimit"] == 0
    pod = spec["template"]["spec"]
    assert (pod["serviceAccountName"], pod["restartPolicy"]) == ("werf", "Never")
    (login,), (werf,) = pod["initContainers"], pod["containers"]
    assert "werf cr login" in " ".join(login["command"])
    assert "werf bundle apply" in " ".join(werf["command"])
    assert werf["image"] == login["image"] == "registry.werf.io/werf/werf:latest"
    env = {var["name"]: var.get("value") for var in werf["env"]}
    host = first.bundle["spec"]["registry"]
    assert env["WERF_REPO"] == f"{host}/{lasting_team.repo}"
    assert env["WERF_TAG"] == f"1.0.0@{first.digest}"
    assert (env["WERF_NAMESPACE"], env["WERF_RELEASE"]) == (lasting_team.namespace, "shop")
    assert (env["DEBUG"], env["my-var"], env["a.b"]) == ("true", "x", "1")
    assert env["WERF_SET_REPLICAS"] == "replicas=2"
    values = [env[name] for name in env if name.startswith("WERF_VALUES_OPERATOR_")]
    mounts = [mount["mountPath"] for mount in werf["volumeMounts"]]
    assert [value.removesuffix("/a.yaml") in mounts for value in values] == [True]
    assert PASSWORD not in str(first.job)


def test_its_labels_and_annotations_for_the_release_reach_it(first: First) -> None:
    metadata = first.made["metadata"]
    assert metadata["labels"]["app.kubernetes.io/part-of"] == "shop"
    assert metadata["annotations"]["argocd.argoproj.io/tracking-id"] == "it"
    assert not {"private"} & {*metadata["labels"], *metadata["annotations"]}


def test_a_first_deploy_is_five_writes_and_a_poll_that_finds_nothing_new_is_none(
    first: First, lasting_team: Team, operator: Operator, registry: Registry
) -> None:
    until(lambda: events(lasting_team, "shop") == {"Deploying": 1, "Deployed": 1})
    deploy = written(operator, lasting_team, first.since, but=("events",))
    assert deploy == DEPLOY + FINALIZER
    since = lasting_team.cluster.audit_offset()

    registry.wait_polled(lasting_team.repo)

    assert not written(operator, lasting_team, since)


def test_an_edit_of_the_values_deploys_at_once_and_one_of_their_labels_does_not(shop: Shop) -> None:
    shop.poll("1h")
    shop.team.patch("configmaps", "values", metadata={"labels": {"seen": "yes"}})

    shop.team.patch("configmaps", "values", data={"b.yaml": "greeting: salut"})

    until(lambda: shop.release()["greeting"] == "salut")
    shop.team.wait_deployed("shop", shop.digest)
    assert shop.jobs == 1
    assert causes(shop.team, 1) == ["ValuesChanged"]


def test_force_update_deploys_once_more_and_is_reset(shop: Shop) -> None:
    revision = shop.team.status("shop")["deployed"]["revision"]

    force(shop.team)

    until(lambda: shop.jobs == 1, "it is deployed once more")
    until(lambda: shop.team.status("shop")["forceUpdate"] == 0)
    until(lambda: conditions(shop.team, "shop") == DEPLOYED)
    # werf found nothing to change, and stored no revision
    assert shop.team.status("shop")["deployed"]["revision"] == revision
    assert causes(shop.team, 1) == ["Requested"]


def test_a_spec_that_is_edited_while_a_job_runs_is_deployed_after_it(
    shop: Shop, registry: Registry
) -> None:
    team = shop.team
    registry.stalling.set()
    second = team.publish("1.1.0", "second")
    team.patch("bundles", "shop", spec={"version": "1.1.0"})
    until(lambda: shop.jobs == 1, "the first Job is made")
    assert conditions(team, "shop")["Reconciling"] == ("True", "Deploying")
    third = team.publish("1.2.0", "third")

    team.patch("bundles", "shop", spec={"version": "1.2.*", "interval": None})
    registry.stalling.clear()

    status = team.wait_deployed("shop", third)
    newest, before = status["history"][:2]
    assert [(one["outcome"], one["digest"]) for one in (newest, before)] == [
        ("Succeeded", third),
        ("Succeeded", second),
    ]
    assert shop.jobs == 2
    assert status["deploy"]["version"] == "1.2.0"
    assert causes(team, 2) == [f"SpecChanged by {MANAGER}"] * 2


def test_a_higher_version_and_a_moved_tag_in_its_range_are_deployed_by_the_next_poll(
    shop: Shop, operator: Operator, registry: Registry
) -> None:
    team = shop.team
    team.publish("1.3.0", "out of range")
    registry.wait_polled(team.repo)  # what a poll finds beside the deploy is in the status
    since = team.cluster.audit_offset()
    higher = team.publish("1.2.10", "higher")
    team.wait_deployed("shop", higher)
    wait_for_ttl(team)
    assert written(operator, team, since, but=("events",)) == DEPLOY

    moved = team.publish("1.2.10", "moved")  # of the same version, so its config is the same
    team.wait_deployed("shop", moved)

    assert shop.release()["text"] == "moved"
    assert shop.jobs == 2
    assert causes(team, 2) == ["NewVersion"] * 2


def test_disable_autoupdate_stops_requests_and_deploys_until_it_is_removed(
    shop: Shop, registry: Registry
) -> None:
    team = shop.team
    team.annotate("shop", **{"disable-autoupdate": ""})
    team.wait_reason("shop", "AutoupdateDisabled")
    team.publish("1.0.0", "clock", repo="clock/app")
    clock = {"registry": registry.host, "auth": "login", "repo": "clock/app"}
    team.bundle("clock", suspend=True, **clock)
    team.wait_reason("clock", "Suspended")
    pushed = team.publish("1.2.11", "pushed")
    force(team)
    asked = registry.requests(team.repo)

    registry.wait_polled("clock/app")

    assert registry.requests(team.repo) == asked
    assert shop.jobs == 0
    assert conditions(team, "shop")["Ready"] == ("True", "AutoupdateDisabled")
    assert team.status("shop")["target"]["digest"] == shop.digest
    team.annotate("shop", **{"disable-autoupdate": None})
    team.wait_deployed("shop", pushed)
    until(lambda: team.status("shop")["forceUpdate"] == 0)
    assert shop.release()["text"] == "pushed"
    assert shop.jobs == 1
    assert causes(team, 1) == ["Requested"]  # forceUpdate was set meanwhile


def test_a_failed_deploy_is_tried_again_later_and_then_left_alone_until_something_is_pushed(
    shop: Shop, operator: Operator, registry: Registry
) -> None:
    team = shop.team
    bad = team.publish("1.2.12", "bad", template=BROKEN)
    team.wait_reason("shop", "DeployFailed")
    failed = team.status("shop")["attempted"]
    assert (failed["digest"], failed["outcome"], failed["failures"]) == (bad, "Failed", 1)
    due = moment(failed["nextRetryAt"])
    assert due >= moment(failed["finishedAt"]) + BACKOFF

    team.wait_reason("shop", "Quarantined")
    status = team.status("shop")
    again = status["attempted"]
    assert moment(again["startedAt"]) >= due
    assert (again["digest"], again["failures"]) == (bad, 2)
    assert again["attempt"] == failed["attempt"] + 1
    assert status["lastError"]["reason"] == "DeployFailed"
    assert status["lastError"]["logTail"]
    assert (status["target"]["digest"], status["deploy"]["digest"]) == (bad, shop.digest)
    assert conditions(team, "shop") == {
        "Ready": ("False", "Quarantined"),
        "Reconciling": ("False", "Quarantined"),
        "Stalled": ("True", "Quarantined"),
    }
    until(lambda: events(team, "shop")["Quarantined"] == 1)
    assert events(team, "shop")["DeployFailed"] == 1
    wait_for_ttl(team)
    passed_over = {"version": "1.2.12", "reason": "Quarantined"}
    until(lambda: passed_over in team.status("shop")["available"].get("rejected", []))
    assert metric(operator, "copyrator_bundles_quarantined") == 1
    assert metric(operator, 'copyrator_bundles{reason="Quarantined"}') == 1
    since = team.cluster.audit_offset()
    registry.wait_polled(team.repo)
    assert not written(operator, team, since), team.get("bundles", "shop")

    better = team.publish("1.2.13", "better")
    status = team.wait_deployed("shop", better)
    assert "lastError" not in status
    assert conditions(team, "shop") == DEPLOYED
    assert shop.jobs == 3
    assert causes(team, 3) == ["NewVersion", "Retry", "NewVersion"]
    edits: list[dict[str, Any]] = [
        {"metadata": {"annotations": {"operator.werf.dev/requestedAt": "ann"}}},
        {"spec": {"env": {"EDITED": "yes"}}},
    ]
    for number, edit in enumerate(edits):
        Person(team.api, "ann").merge(team.path("bundles", "shop"), edit, manager="ann")
        until(lambda number=number: shop.jobs == 4 + number)
        team.wait_deployed("shop", better)
    # Who calls a field manager like a person, or writes one into an annotation, is none.
    made = "by field manager ann"
    assert causes(team, 2) == [f"SpecChanged {made}", f"Requested {made}"]


def test_a_foreground_deletion_uninstalls_the_release(
    shop: Shop, operator: Operator, registry: Registry
) -> None:
    """The last one that needs this Bundle."""
    team = shop.team
    deploys = len(team.jobs("shop"))
    registry.wait_polled(team.repo)
    since = team.cluster.audit_offset()

    team.delete("bundles", "shop", propagationPolicy="Foreground")

    team.wait_gone("bundles", "shop")
    assert team.get("configmaps", "shop-app") is None
    (job,) = team.jobs("shop", "uninstall")
    assert "ownerReferences" not in job["metadata"]
    assert job["spec"]["template"]["spec"]["serviceAccountName"] == "werf"
    until(lambda: events(team, "shop")["Uninstalled"] == 1)
    assert written(operator, team, since, "shop", but=("events",)) == UNINSTALL
    results = ("succeeded", "failed")
    counted = {of: metric(operator, "copyrator_deploys_total", "deploy", of) for of in results}
    assert counted == {"succeeded": deploys - 2, "failed": 2}
    assert metric(operator, "copyrator_deploys_total", "uninstall", "succeeded") == 1


# --- what is chosen ---

TAGS = ("1.2.3", "1.2.39", "1.10.0", "2.0.0", "3.0.0-rc.1", "latest")
CHOSEN: list[tuple[dict[str, object], str]] = [
    ({"version": "1.2.3"}, "1.2.3"),
    ({"version": "1.2.*"}, "1.2.39"),
    ({"version": "v1.2.*"}, "1.2.39"),
    ({"version": "1.*"}, "1.10.0"),
    ({"version": "*"}, "2.0.0"),
    ({"version": "*", "prerelease": True}, "3.0.0-rc.1"),
    ({"version": "*", "tagFilter": r"1\.2\..*"}, "1.2.39"),
    ({"version": ">=1.2.3 <1.10.0"}, "1.2.39"),
    ({"version": "~1.2"}, "1.2.39"),
    ({"version": "^1.2.3"}, "1.10.0"),
    ({"version": ">=3.0.0-rc.0"}, "3.0.0-rc.1"),
    ({"version": None}, "latest"),
]
"""Specs, and which of `TAGS` they mean, beside the tags that werf itself leaves there."""


def test_the_version_is_the_highest_tag_that_the_spec_admits(team: Team) -> None:
    """Nothing is deployed: a suspended Bundle shows what is available."""
    digests = {tag: team.publish(tag, tag) for tag in TAGS}
    junk_tags(7, team.cluster.registry, team.repo, "1.2.3")
    for number, (spec, _) in enumerate(CHOSEN):
        team.bundle(f"b{number}", suspend=True, **spec)

    for number, (spec, tag) in enumerate(CHOSEN):
        team.wait_reason(f"b{number}", "Suspended")
        status = team.status(f"b{number}")
        assert status["target"] == {"version": tag, "digest": digests[tag]}, spec
        assert team.jobs(f"b{number}") == []
        if spec == {"version": "*"}:
            passed_over = {"version": "3.0.0-rc.1", "reason": "PreRelease"}
            assert status["available"]["rejected"] == [passed_over]


WRONG: dict[str, tuple[dict[str, object], str, str]] = {
    "no-tag": ({"version": "9.9.9"}, "TagNotFound", "9.9.9"),
    "no-repo": ({"repo": "team/x", "version": "1.*"}, "RepositoryNotFound", "team/x doesn't exist"),
    "no-match": ({"version": "2.*"}, "NoMatchingVersion", "2.*"),
    "no-registry": ({"registry": "127.0.0.1:1"}, "RegistryUnreachable", "127.0.0.1:1"),
    "no-secret": ({"auth": "nowhere"}, "AuthenticationFailed", "nowhere"),
    "empty-secret": ({"auth": "empty"}, "AuthenticationFailed", "username"),
    "no-values": ({"values": "nowhere"}, "ValuesMissing", "nowhere"),
    "root": ({"serviceAccountName": "root"}, "InvalidSpec", "serviceAccountName"),
    "image": ({"werf": {"image": "evil.example/werf"}}, "InvalidSpec", "evil.example/werf"),
}
"""What is wrong with a Bundle of this name: its spec, the reason, and a word of the message."""


def test_what_is_wrong_is_said_in_one_condition_and_what_never_deployed_goes_at_once(
    team: Team,
) -> None:
    team.publish("1.0.0", "first")
    team.create("secrets", "empty", data={"password": "c2VjcmV0"})
    for name, (spec, _, _) in WRONG.items():
        team.bundle(name, **spec)

    for name, (_, reason, word) in WRONG.items():
        condition = team.wait_reason(name, reason)
        assert condition["status"] == "False", name
        assert word in condition["message"], name
        assert team.jobs(name) == [], name

    for name in WRONG:
        team.delete("bundles", name)
    for name in WRONG:
        team.wait_gone("bundles", name)
        assert team.jobs(name, "uninstall") == [], name


def wait_for_ttl(team: Team) -> None:
    """Wait for the last write of each deploy: of the TTL, once the outcome is in the status."""
    until(lambda: {job["spec"]["ttlSecondsAfterFinished"] for job in team.jobs("shop")} == {TTL})


def causes(team: Team, most: int = 10) -> list[str]:
    """What the newest attempts were made for, and by what, the newest first."""
    past = team.status("shop")["history"][:most]
    return [" by ".join(one[key] for key in ("cause", "by") if key in one) for one in past]


def force(team: Team) -> None:
    """Ask for a deploy as the original operator's users do."""
    team.api.patch(team.path("bundles", "shop") + "/status", {"status": {"forceUpdate": 1}})


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def metric(operator: Operator, name: str, action: str = "", result: str = "") -> float:
    """The value of a series; with an action and a result, of that one of a metric."""
    assert operator.process is not None
    series = f'{name}{{action="{action}",result="{result}"}}' if action else name
    lines = operator.process.get("/metrics")[1].splitlines()
    (value,) = (line.split()[-1] for line in lines if line.startswith(f"{series} "))
    return float(value)
