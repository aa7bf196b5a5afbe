"""What goes wrong with one Bundle, its Job's pods or its log stays with that Bundle."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.component.bundles.fake_cluster import BundleCluster, fail
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.steps import STEP_SECONDS, assert_quick

from copyrator.bundles.engine import bundle as bundle_module
from copyrator.bundles.engine.gate import PASSED, Gate, Gates, Occasion, Verdict
from copyrator.bundles.engine.job_client import BUNDLE_LOG_BYTES, BUNDLE_PODS
from copyrator.bundles.jobs.outcome import printed_digests


async def test_a_mistake_of_ours_at_one_bundle_is_in_its_status_and_others_go_on(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    mistakes = ["a mistake that quotes hunter-two"]

    def judge(*_: Any) -> Verdict:
        if mistakes:
            raise TypeError(mistakes[0])
        return PASSED

    gate = Gate("broken", lambda spec: spec.name == "bad", frozenset(Occasion), judge)
    await run(gates=Gates(moment=(gate,)))
    bundle("bad")
    bundle("good")

    await eventually(lambda: cluster.status("good").get("deploy"), "the good one is deployed")
    await eventually(lambda: cluster.reason("bad") == "DeployFailed")
    assert "the operator failed to reconcile this Bundle (TypeError)" in cluster.message("bad")
    assert "hunter-two" not in str(cluster.look("bundles", "bad"))

    mistakes.clear()
    await eventually(lambda: cluster.status("bad").get("deploy"), "tried again")


async def test_a_spec_that_we_fail_to_read_is_that_bundles_alone(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    parse = bundle_module.parse_bundle

    def broken(body: Any, defaults: Any) -> Any:
        if body["metadata"]["name"] == "bad":
            raise RecursionError
        return parse(body, defaults)

    monkeypatch.setattr(bundle_module, "parse_bundle", broken)
    caplog.set_level(logging.CRITICAL)
    bundle("bad")
    bundle("good")
    await run()

    await eventually(lambda: cluster.status("good").get("deploy"), "the good one is deployed")
    await eventually(lambda: cluster.reason("bad") == "InvalidSpec")
    assert "RecursionError" in cluster.message("bad")


@pytest.mark.parametrize(
    ("field", "key"),
    [("auth", ".dockerconfigjson"), ("caSecret", "ca.crt")],
)
async def test_a_credential_that_is_too_long_is_that_bundles_alone(
    cluster: BundleCluster, run: Run, bundle: Make, field: str, key: str
) -> None:
    data = {"username": "YWxpY2U=", key: "A" * 1_000_000}
    cluster.put_object("secrets", "creds", data=data)
    bundle("bad", **{field: "creds"})
    bundle("good")
    await run()

    await eventually(lambda: cluster.status("good").get("deploy"), "the good one is deployed")
    await eventually(lambda: cluster.reason("bad") == "AuthenticationFailed")
    assert "Secret team/creds of spec." in cluster.message("bad")
    assert f"bytes under {key}" in cluster.message("bad")


async def test_pods_and_a_log_are_read_up_to_their_bounds(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    cluster.ends = fail
    bundle(retry={"limit": 0})

    await run()

    await eventually(lambda: cluster.reason() == "Quarantined")
    logs = [seen for seen in cluster.seen if seen.path.endswith("/log")]
    assert logs
    assert all(int(seen.params["limitBytes"]) == BUNDLE_LOG_BYTES for seen in logs)
    pods = [
        seen
        for seen in cluster.seen
        if seen.path.endswith("/pods") and "controller-uid" in seen.params["labelSelector"]
    ]
    assert pods
    assert all(int(seen.params["limit"]) <= BUNDLE_PODS for seen in pods)


def test_a_log_of_empty_lines_is_searched_in_no_time() -> None:
    log = "\n" * BUNDLE_LOG_BYTES + "digest:  " + "a" * 64

    assert printed_digests(log) == ("sha256:" + "a" * 64,)
    assert_quick(lambda: printed_digests(log), 3 * STEP_SECONDS)
