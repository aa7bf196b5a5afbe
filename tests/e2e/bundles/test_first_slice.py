"""The deploying half on a real control plane, registry and Jobs: issue 3's list, in its order."""

import signal
import threading
from dataclasses import dataclass
from typing import Any

import pytest
from tests.e2e.bundles.conftest import INTERVAL, Operator, Shop, Team, stays
from tests.e2e.bundles.private_registry import front
from tests.e2e.operator_process import until
from tests.long import long_form

pytestmark = pytest.mark.usefixtures("operator")

BROKEN = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: Not_A_Name\ndata:\n  text: TEXT\n"
RETRY = {"limit": 1, "backoff": "2s"}


@dataclass
class First:
    """What the first deploy of the Bundle left."""

    digest: str
    bundle: dict[str, Any]
    status: dict[str, Any]
    job: dict[str, Any]
    made: dict[str, Any]
    """The ConfigMap of the release."""


@pytest.fixture(scope="module")
def first(lasting_team: Team, operator: Operator) -> First:
    digest = lasting_team.publish("1.0.0", "first")
    lasting_team.create("configmaps", "values", data={"a.yaml": "greeting: hello"})
    bundle = lasting_team.bundle(
        "shop",
        values="values",
        env={"WERF_SET_REPLICAS": "replicas=2", "DEBUG": True, "my-var": "x", "a.b": 1},
        metadata={"labels": {"app.kubernetes.io/part-of": "shop", "private": "yes"}},
        interval="1h",
        retry=RETRY,
    )
    status = lasting_team.wait_deployed("shop", digest)
    until(
        lambda: lasting_team.jobs("shop")[0]["spec"]["ttlSecondsAfterFinished"] == 600,
        "the Job goes some time after its end",
    )
    (job,) = lasting_team.jobs("shop")
    return First(digest, bundle, status, job, lasting_team.get("configmaps", "shop-app") or {})


@pytest.fixture
def shop(lasting_team: Team, first: First) -> Shop:
    return Shop(lasting_team)


def test_deploys_an_exact_tag_and_says_so(first: First) -> None:
    digest, status = first.digest, first.status
    assert first.made["data"] == {"text": "first", "greeting": "hello"}
    assert status["target"] == {"digest": digest, "version": "1.0.0"}
    assert status["deploy"] == status["target"] | {"shortDigest": digest[7:19]}
    assert status["ready"] == 1
    assert status["deployed"]["revision"] == 1
    assert status["deployed"]["verified"] is True
    assert [entry["outcome"] for entry in status["history"]] == ["Succeeded"]


def test_makes_the_job_that_the_contract_describes(first: First, lasting_team: Team) -> None:
    pod = first.job["spec"]["template"]["spec"]
    env = {var["name"]: var.get("value") for var in pod["containers"][0]["env"]}
    metadata = first.job["metadata"]
    assert pod["serviceAccountName"] == "werf"
    assert first.job["spec"]["backoffLimit"] == 0
    assert metadata["annotations"]["operator.werf.dev/deployment"] == "shop"
    assert metadata["ownerReferences"][0]["uid"] == first.bundle["metadata"]["uid"]
    assert env["WERF_REPO"] == f"{lasting_team.cluster.registry}/{lasting_team.repo}"
    assert env["WERF_TAG"] == f"1.0.0@{first.digest}"
    assert (env["WERF_NAMESPACE"], env["WERF_RELEASE"]) == (lasting_team.namespace, "shop")
    assert (env["DEBUG"], env["my-var"], env["a.b"]) == ("true", "x", "1")


def test_labels_of_the_bundle_reach_the_release(first: First) -> None:
    labels = first.made["metadata"]["labels"]
    assert labels["app.kubernetes.io/part-of"] == "shop"
    assert "private" not in labels


@long_form("tests/component/bundles/test_deploys.py::test_only_edits_of_content_deploy")
def test_an_edit_of_the_values_deploys_at_once(shop: Shop) -> None:
    shop.poll("1h")

    shop.team.patch("configmaps", "values", data={"b.yaml": "greeting: salut"})

    until(lambda: shop.release()["greeting"] == "salut")
    shop.team.wait_deployed("shop", shop.digest)
    shop.team.patch("configmaps", "values", metadata={"labels": {"seen": "yes"}})
    stays(3, lambda: shop.jobs == 1, "an edit that changes no value deploys nothing")


def test_force_update_deploys_once_more_and_is_reset(shop: Shop) -> None:
    team = shop.team
    shop.poll("1h")
    revision = team.status("shop")["deployed"]["revision"]

    team.api.patch(team.path("bundles", "shop") + "/status", {"status": {"forceUpdate": 1}})

    until(
        lambda: team.status("shop")["deployed"]["revision"] == revision + 1 or shop.jobs == 1,
        "it is deployed once more, or werf skips what is the same",
    )
    until(lambda: team.status("shop")["forceUpdate"] == 0)
    until(lambda: team.condition("shop")["status"] == "True")
    stays(3, lambda: shop.jobs == 1, "a force deploys once")


@long_form(
    "tests/e2e/faults/test_two_replicas.py"
    "::test_two_that_both_lead_make_one_job_a_deploy_and_do_not_fight"
)
def test_a_change_of_the_spec_takes_effect_at_once(shop: Shop) -> None:
    team = shop.team
    second = team.publish("1.1.0", "second")
    shop.poll("1h")

    team.patch("bundles", "shop", spec={"version": "1.1.0"})
    status = team.wait_deployed("shop", second)
    assert status["deploy"]["version"] == "1.1.0"

    team.patch("bundles", "shop", spec={"interval": "2h"})
    stays(3, lambda: shop.jobs == 1, "how often we poll is no news to the release")


@long_form(
    "tests/component/bundles/test_polls.py"
    "::test_while_autoupdate_is_disabled_the_registry_is_not_asked"
)
def test_disable_autoupdate_stops_updates_until_it_is_removed(shop: Shop) -> None:
    team = shop.team
    shop.poll(None)
    team.annotate("shop", **{"disable-autoupdate": ""})
    team.wait_reason("shop", "AutoupdateDisabled")
    revision = team.status("shop")["deployed"]["revision"]

    pushed = shop.push("pushed")

    stays(INTERVAL + 3, lambda: shop.jobs == 0)
    assert team.status("shop")["target"]["digest"] == shop.digest
    team.annotate("shop", **{"disable-autoupdate": None})
    status = team.wait_deployed("shop", pushed)
    assert shop.release()["text"] == "pushed"
    assert status["deployed"]["revision"] == revision + 1
    assert shop.jobs == 1


@long_form(
    "tests/component/bundles/test_deploys.py::test_a_digest_that_fails_is_tried_again_and_then_left_alone"
)
def test_a_failed_deploy_is_tried_again_recorded_and_not_repeated_at_every_poll(shop: Shop) -> None:
    team = shop.team
    shop.poll(None)

    bad = shop.push("bad", template=BROKEN)

    team.wait_reason("shop", "Quarantined")
    status = team.status("shop")
    assert status["attempted"]["digest"] == bad
    assert status["attempted"]["outcome"] == "Failed"
    assert status["attempted"]["failures"] == 2
    assert status["lastError"]["reason"] == "DeployFailed"
    assert status["lastError"]["logTail"]
    assert status["deploy"]["digest"] == shop.digest
    assert team.condition("shop", "Stalled")["status"] == "True"
    stays(INTERVAL + 2, lambda: shop.jobs == 2, "it was tried again, and then left alone")

    better = shop.push("better")
    team.wait_deployed("shop", better)
    assert "lastError" not in team.status("shop")


def test_a_foreground_deletion_uninstalls_the_release(shop: Shop) -> None:
    """The last one that needs this Bundle."""
    team = shop.team

    team.delete("bundles", "shop", propagationPolicy="Foreground")

    team.wait_gone("bundles", "shop")
    assert team.get("configmaps", "shop-app") is None
    (job,) = team.jobs("shop", "uninstall")
    assert "ownerReferences" not in job["metadata"]


@long_form(
    "tests/e2e/faults/test_two_replicas.py::test_after_sigkill_it_does_so_too_and_sees_a_running_deploy_to_its_end"
)
def test_a_restart_in_mid_job_goes_on_where_it_was_and_catches_up_with_what_happened_meanwhile(
    team: Team, operator: Operator
) -> None:
    digest = team.publish("1.0.0", "first")
    team.create("configmaps", "values", data={"a.yaml": "greeting: hello"})
    stalling = threading.Event()
    stalling.set()
    with front(team.cluster.registry, stalling=stalling) as host:
        team.bundle("shop", registry=host, values="values", interval="1h")
        job = team.first_job()
        until(lambda: team.get("jobs", job)["status"].get("ready"), "its pod runs")

        operator.stop(signal.SIGKILL)
        operator.start()
        operator.stop(signal.SIGTERM)
        stalling.clear()
        until(lambda: team.get("jobs", job)["status"].get("completionTime"), "it ends")
        assert team.status("shop")["attempted"]["outcome"] == "Running"
        assert team.release("shop")["greeting"] == "hello"
        team.patch("configmaps", "values", data={"a.yaml": "greeting: salut"})
        operator.start()

        until(lambda: team.release("shop")["greeting"] == "salut")
        status = team.wait_deployed("shop", digest)
    assert [entry["outcome"] for entry in status["history"]] == ["Succeeded", "Succeeded"]
    assert status["attempted"]["attempt"] == 2
    assert len(team.jobs("shop")) == 2


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
