"""The deploying half on a real control plane, registry and Jobs: issue 3's list, in its order."""

import signal

import pytest
from tests.e2e.bundles.conftest import INTERVAL, Operator, Team, stays
from tests.e2e.operator_process import until

pytestmark = pytest.mark.usefixtures("operator")

BROKEN = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: Not_A_Name\ndata:\n  text: TEXT\n"


def test_deploys_an_exact_tag_and_says_so(team: Team) -> None:
    digest = team.publish("1.0.0", "first")

    team.bundle("shop", env={"WERF_SET_REPLICAS": "replicas=2", "DEBUG": True})

    status = team.wait_deployed("shop", digest)
    assert team.release("shop") == {"text": "first", "greeting": "none"}
    assert status["target"] == {"digest": digest, "version": "1.0.0"}
    assert status["deploy"] == {"digest": digest, "version": "1.0.0"}
    assert status["ready"] == 1
    assert status["deployed"]["revision"] == 1
    assert status["deployed"]["verified"] is True
    assert [entry["outcome"] for entry in status["history"]] == ["Succeeded"]


def test_makes_the_job_that_the_contract_describes(team: Team) -> None:
    digest = team.publish("1.0.0", "first")

    bundle = team.bundle("shop", env={"DEBUG": True, "my-var": "x", "a.b": 1})
    team.wait_deployed("shop", digest)

    (job,) = team.jobs("shop")
    pod = job["spec"]["template"]["spec"]
    env = {var["name"]: var.get("value") for var in pod["containers"][0]["env"]}
    assert pod["serviceAccountName"] == "werf"
    assert job["spec"]["backoffLimit"] == 0
    assert job["metadata"]["annotations"]["operator.werf.dev/deployment"] == "shop"
    assert job["metadata"]["ownerReferences"][0]["uid"] == bundle["metadata"]["uid"]
    assert env["WERF_REPO"] == f"{team.cluster.registry}/{team.repo}"
    assert env["WERF_TAG"] == f"1.0.0@{digest}"
    assert (env["WERF_NAMESPACE"], env["WERF_RELEASE"]) == (team.namespace, "shop")
    assert (env["DEBUG"], env["my-var"], env["a.b"]) == ("true", "x", "1")
    until(lambda: team.jobs("shop")[0]["spec"]["ttlSecondsAfterFinished"] == 600)


def test_labels_of_the_bundle_reach_the_release(team: Team) -> None:
    digest = team.publish("1.0.0", "first")

    labels = {"app.kubernetes.io/part-of": "shop", "private": "yes"}
    team.bundle("shop", metadata={"labels": labels})
    team.wait_deployed("shop", digest)

    made = team.get("configmaps", "shop-app")
    assert made["metadata"]["labels"]["app.kubernetes.io/part-of"] == "shop"
    assert "private" not in made["metadata"]["labels"]


def test_a_new_push_to_the_same_tag_is_taken(team: Team) -> None:
    first = team.publish("1.0.0", "first")
    team.bundle("shop")
    team.wait_deployed("shop", first)

    second = team.publish("1.0.0", "second")

    status = team.wait_deployed("shop", second)
    assert team.release("shop")["text"] == "second"
    assert status["deployed"]["revision"] == 2
    assert len(team.jobs("shop")) == 2


def test_an_edit_of_the_values_deploys_at_once(team: Team) -> None:
    digest = team.publish("1.0.0", "first")
    team.create("configmaps", "values", data={"a.yaml": "greeting: hello"})
    team.bundle("shop", values="values", interval="1h")
    team.wait_deployed("shop", digest)
    assert team.release("shop")["greeting"] == "hello"

    team.patch("configmaps", "values", data={"b.yaml": "greeting: salut"})

    until(lambda: team.release("shop")["greeting"] == "salut")
    team.wait_deployed("shop", digest)
    team.patch("configmaps", "values", metadata={"labels": {"seen": "yes"}})
    stays(3, lambda: len(team.jobs("shop")) == 2, "an edit that changes no value deploys nothing")


def test_disable_autoupdate_stops_updates_until_it_is_removed(team: Team) -> None:
    first = team.publish("1.0.0", "first")
    team.bundle("shop")
    team.wait_deployed("shop", first)
    team.annotate("shop", **{"disable-autoupdate": ""})
    team.wait_reason("shop", "AutoupdateDisabled")

    second = team.publish("1.0.0", "second")

    stays(INTERVAL + 3, lambda: len(team.jobs("shop")) == 1)
    assert team.status("shop")["target"]["digest"] == first
    team.annotate("shop", **{"disable-autoupdate": None})
    team.wait_deployed("shop", second)


def test_force_update_deploys_once_more_and_is_reset(team: Team) -> None:
    digest = team.publish("1.0.0", "first")
    team.bundle("shop", interval="1h")
    team.wait_deployed("shop", digest)

    team.api.patch(team.path("bundles", "shop") + "/status", {"status": {"forceUpdate": 1}})

    until(lambda: team.status("shop")["deployed"]["revision"] == 2 or _skipped(team))
    until(lambda: team.status("shop")["forceUpdate"] == 0)
    until(lambda: team.condition("shop")["status"] == "True")
    stays(3, lambda: len(team.jobs("shop")) == 2, "a force deploys once")


def _skipped(team: Team) -> bool:
    return len(team.status("shop").get("history", [])) == 2


def test_requested_at_deploys_once_for_each_value(team: Team) -> None:
    digest = team.publish("1.0.0", "first")
    team.bundle("shop", interval="1h")
    team.wait_deployed("shop", digest)

    team.annotate("shop", requestedAt="2030-01-01")

    until(lambda: len(team.status("shop")["history"]) == 2)
    assert team.status("shop")["lastHandledRequest"] == "2030-01-01"
    stays(3, lambda: len(team.jobs("shop")) == 2)


def test_a_change_of_the_spec_takes_effect_at_once(team: Team) -> None:
    first = team.publish("1.0.0", "first")
    second = team.publish("1.1.0", "second")
    team.bundle("shop", interval="1h")
    team.wait_deployed("shop", first)

    team.patch("bundles", "shop", spec={"version": "1.1.0"})
    status = team.wait_deployed("shop", second)
    assert status["deploy"]["version"] == "1.1.0"

    team.patch("bundles", "shop", spec={"interval": "2h"})
    stays(3, lambda: len(team.jobs("shop")) == 2, "how often we poll is no news to the release")


def test_a_failed_deploy_is_recorded_and_not_repeated_at_every_poll(team: Team) -> None:
    good = team.publish("1.0.0", "first")
    team.bundle("shop", retry={"limit": 0})
    team.wait_deployed("shop", good)

    bad = team.publish("1.0.0", "second", template=BROKEN)

    team.wait_reason("shop", "Quarantined")
    status = team.status("shop")
    assert status["attempted"]["digest"] == bad
    assert status["attempted"]["outcome"] == "Failed"
    assert status["lastError"]["reason"] == "DeployFailed"
    assert status["lastError"]["logTail"]
    assert status["deploy"]["digest"] == good
    assert team.condition("shop", "Stalled")["status"] == "True"
    stays(INTERVAL + 2, lambda: len(team.jobs("shop")) == 2)

    better = team.publish("1.0.0", "third")
    team.wait_deployed("shop", better)
    assert "lastError" not in team.status("shop")


def test_a_failed_deploy_is_tried_again(team: Team) -> None:
    team.publish("1.0.0", "first", template=BROKEN)

    team.bundle("shop", retry={"limit": 1, "backoff": "2s"})

    team.wait_reason("shop", "Quarantined")
    assert team.status("shop")["attempted"]["failures"] == 2
    assert len(team.jobs("shop")) == 2


def test_deleting_the_bundle_uninstalls_the_release(team: Team) -> None:
    digest = team.publish("1.0.0", "first")
    team.bundle("shop")
    team.wait_deployed("shop", digest)

    team.delete("bundles", "shop")

    team.wait_gone("bundles", "shop")
    assert team.get("configmaps", "shop-app") is None
    (job,) = team.jobs("shop", "uninstall")
    assert "ownerReferences" not in job["metadata"]


def test_a_foreground_deletion_uninstalls_as_well(team: Team) -> None:
    digest = team.publish("1.0.0", "first")
    team.bundle("shop")
    team.wait_deployed("shop", digest)

    team.delete("bundles", "shop", propagationPolicy="Foreground")

    team.wait_gone("bundles", "shop")
    assert team.get("configmaps", "shop-app") is None


def test_a_bundle_that_never_deployed_goes_at_once(team: Team) -> None:
    team.bundle("shop", version="none")
    team.wait_reason("shop", "TagNotFound")

    team.delete("bundles", "shop")

    team.wait_gone("bundles", "shop")
    assert team.jobs("shop", "uninstall") == []


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
def test_a_restart_in_mid_job_goes_on_where_it_was(
    team: Team, operator: Operator, signum: signal.Signals
) -> None:
    digest = team.publish("1.0.0", "first")
    team.bundle("shop", interval="1h")
    until(lambda: team.jobs("shop"))

    operator.stop(signum)
    until(lambda: team.jobs("shop")[0].get("status", {}).get("completionTime"))
    assert team.status("shop")["attempted"]["outcome"] == "Running"
    operator.start()

    status = team.wait_deployed("shop", digest)
    assert status["attempted"]["attempt"] == 1
    assert len(team.jobs("shop")) == 1


def test_what_happened_while_the_operator_was_down_is_caught_up_with(
    team: Team, operator: Operator
) -> None:
    digest = team.publish("1.0.0", "first")
    team.create("configmaps", "values", data={"a.yaml": "greeting: hello"})
    team.bundle("shop", values="values", interval="1h")
    team.bundle("going", interval="1h")
    team.wait_deployed("shop", digest)
    team.wait_deployed("going", digest)

    operator.stop()
    team.patch("configmaps", "values", data={"a.yaml": "greeting: salut"})
    team.delete("bundles", "going")
    operator.start()

    until(lambda: team.release("shop")["greeting"] == "salut")
    team.wait_gone("bundles", "going")
    assert team.release("going") is None


@pytest.mark.parametrize(
    ("spec", "reason", "word"),
    [
        ({"version": "9.9.9"}, "TagNotFound", "9.9.9"),
        ({"version": "2.*"}, "NoMatchingVersion", "2.*"),
        ({"registry": "127.0.0.1:1"}, "RegistryUnreachable", "127.0.0.1:1"),
        ({"auth": "nowhere"}, "AuthenticationFailed", "nowhere"),
        ({"auth": "empty"}, "AuthenticationFailed", "username"),
        ({"values": "nowhere"}, "ValuesMissing", "nowhere"),
        ({"serviceAccountName": "root"}, "InvalidSpec", "serviceAccountName"),
        ({"werf": {"image": "evil.example/werf"}}, "InvalidSpec", "evil.example/werf"),
    ],
)
def test_what_is_wrong_is_said_in_one_condition(
    team: Team, spec: dict[str, object], reason: str, word: str
) -> None:
    team.publish("1.0.0", "first")
    team.create("secrets", "empty", data={"password": "c2VjcmV0"})

    team.bundle("shop", **spec)

    condition = team.wait_reason("shop", reason)
    assert condition["status"] == "False"
    assert word in condition["message"]
    assert team.jobs("shop") == []


def test_a_missing_service_account_is_waited_for(team: Team) -> None:
    digest = team.publish("1.0.0", "first")
    team.delete("serviceaccounts", "werf")
    team.bundle("shop", interval="1h")
    team.wait_reason("shop", "ServiceAccountMissing")

    team.create("serviceaccounts", "werf")

    team.wait_deployed("shop", digest)


def test_values_that_appear_later_are_waited_for(team: Team) -> None:
    digest = team.publish("1.0.0", "first")
    team.bundle("shop", values="late", interval="1h")
    team.wait_reason("shop", "ValuesMissing")

    team.create("configmaps", "late", data={"a.yaml": "greeting: hello"})

    team.wait_deployed("shop", digest)
    assert team.release("shop")["greeting"] == "hello"
