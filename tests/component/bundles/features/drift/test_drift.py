"""What is deployed is compared with its chart, from the first plan after the deploy on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from tests.component.bundles.approvals import (
    ALWAYS,
    ON_RISK,
    annotate,
    approve,
    condition,
    deployed,
    idle,
    lose,
    operations,
    pending,
    plan,
    secrets,
    waits,
)
from tests.component.bundles.drifting import (
    CORRECT,
    DETECT,
    EDITED,
    HOOK,
    OTHER,
    Release,
    history,
    told,
)
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fake_werf import CREATE, DELETE, Werf, container, hash_of
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.freezing import freeze_all, thaw_all
from tests.component.bundles.test_gated_jobs import assert_restricted, spec
from tests.component.bundles.test_job_credentials import Logins, give, several
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry

HOURLY = {**DETECT, "interval": "1h"}
AN_HOUR = timedelta(hours=1)
SELDOM = 1e9
"""Seconds between two polls: none is due in a test that lets hours pass."""


@pytest.fixture
def release(cluster: BundleCluster, werf: Werf) -> Release:
    return Release(cluster, werf)


@pytest.mark.needs("approval")
async def test_what_a_chart_does_each_time_is_no_drift_and_what_others_change_is(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    release: Release,
    caplog: pytest.LogCaptureFixture,
) -> None:
    bundle(drift=DETECT)
    operator = await run()
    await release.in_sync()
    await release.look("one")
    assert condition(cluster, "Drifted") == ("False", "InSync")
    release.always[0] = HOOK.replace("recreate", "create")  # its Job was cleaned up
    release.changed += [*EDITED, OTHER]
    await release.look("two")
    found = await release.judged("True", "Drifted")
    assert found["objects"] == sorted([*EDITED, OTHER])
    assert (found["count"], found["foundJob"]) == (2, cluster.status()["plan"]["job"])
    await idle(operator)
    assert cluster.reason() == "Deployed"
    assert len(cluster.jobs()) == 1, "Detect deploys nothing"
    await release.look("three")
    await idle(operator)
    assert release.drift["since"] == found["since"]
    assert told(caplog) == ["Drifted"]


async def test_the_checks_are_made_again_and_again_and_the_job_that_found_drift_is_kept(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    release: Release,
    caplog: pytest.LogCaptureFixture,
) -> None:
    bundle(drift=HOURLY)
    operator = await run(timer_interval=SELDOM)
    await release.in_sync()
    asked = len(registry.asked)
    for checks in (2, 3):
        operator.let_pass(AN_HOUR)
        await eventually(
            lambda checks=checks: release.checks >= checks,  # type: ignore[misc]
            "it is checked again",
        )
        await release.in_sync()
        await idle(operator)
    release.changed += EDITED
    operator.let_pass(AN_HOUR)
    found = await release.judged("True", "Drifted")

    def ttl(name: str) -> Any:
        return (cluster.look("jobs", name) or {})["spec"].get("ttlSecondsAfterFinished")

    await idle(operator)
    assert ttl(found["foundJob"]) is None, "it is kept until the next check"
    assert secrets(cluster) == operations(cluster.status()["baseline"], {"job": found["foundJob"]})
    release.changed.clear()
    operator.let_pass(AN_HOUR)
    await release.in_sync()
    await eventually(lambda: ttl(found["foundJob"]) == 120)
    await eventually(lambda: secrets(cluster) == operations(cluster.status()["baseline"]))
    assert len(registry.asked) == asked, "no registry is asked for it"
    assert told(caplog) == ["Drifted"]


@pytest.mark.needs("approval", "charts")
async def test_on_risk_needs_the_baseline_alone(
    cluster: BundleCluster, run: Run, bundle: Make, release: Release
) -> None:
    release.is_installed = True
    release.changed += [CREATE]
    release.always = []
    bundle(approval=ON_RISK)
    operator = await run()
    await deployed(cluster)
    await eventually(lambda: cluster.status().get("baseline"))
    await idle(operator)
    assert release.checks == 1
    assert set(release.drift) == {"check"}
    assert condition(cluster, "Drifted") == ("", "")


UNKNOWN: dict[str, tuple[Callable[[BundleCluster], Any], str]] = {
    "suspended": (lambda c: c.change("bundles", "shop", spec={"suspend": True}), "Suspended"),
    "paused": (lambda c: annotate(c, **{"disable-autoupdate": "true"}), "AutoupdateDisabled"),
    "its values are gone": (lambda c: lose(c, "configmaps", "values"), "NotAsDeployed"),
}
BACK: dict[str, Callable[[BundleCluster], Any]] = {
    "suspended": lambda c: c.change("bundles", "shop", spec={"suspend": False}),
    "paused": lambda c: annotate(c, **{"disable-autoupdate": None}),
    "its values are gone": lambda c: c.put_object("configmaps", "values", data={"v.yaml": "a: 1"}),
}


@pytest.mark.needs("approval")
@pytest.mark.parametrize("what", UNKNOWN)
async def test_nothing_is_known_while_nothing_may_be_compared(
    cluster: BundleCluster, run: Run, bundle: Make, release: Release, what: str
) -> None:
    cluster.put_object("configmaps", "values", data={"v.yaml": "a: 1"})
    bundle(drift=DETECT, values="values")
    operator = await run()
    await release.in_sync()
    release.changed += EDITED
    await release.look()
    await release.judged("True", "Drifted")
    change, reason = UNKNOWN[what]
    change(cluster)
    await release.judged("Unknown", reason)
    BACK[what](cluster)
    await release.judged("True", "Drifted")
    await idle(operator)
    assert len(cluster.jobs()) == 1


async def test_each_content_has_a_baseline_and_a_forced_deploy_of_the_same_has_none(
    cluster: BundleCluster, run: Run, bundle: Make, release: Release
) -> None:
    bundle(drift=DETECT)
    operator = await run()
    found = await release.in_sync()
    await idle(operator)
    status = cluster.status()
    first = status["baseline"]
    assert "plan" not in status
    assert first["digest"] == status["deployed"]["digest"]
    assert "unproven" not in first
    assert found["check"]["operations"] == 2
    assert (release.checks, secrets(cluster)) == (1, operations(first))
    annotate(cluster, forceAt="now")
    await eventually(lambda: len(cluster.jobs()) == 2)
    await idle(operator)
    await release.in_sync()
    assert cluster.status()["baseline"] == first
    release.always = [HOOK]
    cluster.change("bundles", "shop", spec={"env": {"WERF_ENV": "b"}})
    await eventually(lambda: cluster.status()["baseline"]["job"] != first["job"])
    await release.in_sync()
    await idle(operator)
    assert release.drift["check"]["operations"] == 1
    assert secrets(cluster) == operations(cluster.status()["baseline"])


async def test_a_plan_that_fails_tells_nothing_and_waits_for_its_next_time(
    cluster: BundleCluster, run: Run, bundle: Make, release: Release, werf: Werf
) -> None:
    werf.says = lambda *_: (1, "a secret\nError: release: no\n")
    bundle(drift=DETECT, retry={"backoff": "10m"})
    operator = await run()
    found = await release.judged("Unknown", "PlanFailed")
    assert "Error: release: no" in found["message"]
    await idle(operator)
    assert (release.checks, cluster.reason()) == (1, "Deployed")
    assert secrets(cluster) == set()


async def test_a_baseline_that_cant_be_read_tells_nothing(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    release: Release,
) -> None:
    """``bundles.allowedSecrets`` of the chart."""
    bundle(drift=HOURLY)
    operator = await run()
    await release.in_sync()
    cluster.refuse("get", "-operations", 403, "secrets is forbidden")
    operator.let_pass(AN_HOUR)
    found = await release.judged("Unknown", "BaselineUnreadable")
    assert "forbidden" in found["message"]


async def test_nothing_due_costs_nothing(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, release: Release
) -> None:
    """Nor does a restart check anything before its time."""
    bundle(drift=DETECT)
    operator = await run(timer_interval=1.0)
    await release.in_sync()
    await idle(operator)
    seen, asked = len(cluster.seen), len(registry.asked)
    await eventually(lambda: len(registry.asked) >= asked + 3, "polls go on")
    await idle(operator)
    assert [one.path for one in cluster.seen[seen:] if one.verb != "watch"] == []
    await operator.stop()
    operator = await run()
    await idle(operator)
    assert release.checks == 1


@pytest.mark.usefixtures("registry")
async def test_checks_for_drift_and_their_deploys_get_no_setting_that_acts(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    release = Release(cluster, werf)
    bundle(drift=DETECT, **spec())
    await run()
    await release.in_sync()
    assert_restricted(cluster, "drift", "deploy")


async def test_checks_for_drift_have_no_other_credential(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    registry.auth, registry.users = "basic", {"alice": "s3cret"}
    release = Release(cluster, werf)
    give(cluster, several(registry))
    logins = Logins(cluster, registry)
    bundle(auth="creds", drift=DETECT)
    await run()
    await release.in_sync()

    assert set(logins.by_kind) == {"deploy", "drift"}
    await eventually(lambda: not [one for one in secrets(cluster) if one.endswith("-login")])


PROMPT = {"limit": 2, "backoff": "1s"}
DIFFERS = ("True", "RenderedDifferently")


def renders(werf: Werf, text: str) -> None:
    """What the chart gives from now on."""
    werf.renders = lambda _: hash_of(text)


async def installed(
    cluster: BundleCluster, run: Run, bundle: Make, release: Release, **spec: Any
) -> Any:
    """An operator with a Bundle that was approved, deployed and found in sync."""
    bundle(drift=CORRECT, retry=PROMPT, **{"approval": ALWAYS, **spec})
    operator = await run(timer_interval=1.0)
    if "approval" not in spec:
        approve(cluster, await waits(cluster))
    await deployed(cluster)
    await release.in_sync()
    return operator


@pytest.mark.needs("approval")
async def test_what_renders_differently_waits_for_approval_and_is_corrected_once(
    cluster: BundleCluster, run: Run, bundle: Make, release: Release, werf: Werf
) -> None:
    operator = await installed(cluster, run, bundle, release)
    base = cluster.status()["baseline"]["job"]
    renders(werf, "later")

    await release.check_now(*EDITED)

    await release.judged(*DIFFERS)
    found = await waits(cluster, outcome="Planned", version="1.0.0")
    await idle(operator)
    assert condition(cluster, "Ready") == ("True", "Deployed")
    assert len(cluster.jobs()) == 1
    assert found["digest"] == cluster.status()["deployed"]["digest"]

    approve(cluster, found)
    await release.in_sync()
    await idle(operator)
    assert history(cluster) == [("Succeeded", True), ("Succeeded", False)]
    latest = cluster.status()["history"][0]
    assert (latest["plan"], latest["approvedBy"]) == (found["id"], "ann")
    assert werf.applied[1][1].splitlines()[0] == "revision 2"
    assert set(werf.applied[1][1].splitlines()[1:]) == {*release.always, *EDITED}
    assert cluster.status()["baseline"]["job"] == base
    assert (release.drift["corrections"], pending(cluster)) == (1, "")


def draws(_: BundleCluster, werf: Werf) -> None:
    werf.renders = lambda _: "none"


def has_more_after_the_install(_: BundleCluster, werf: Werf) -> None:
    """Where ``.Release.IsUpgrade``: objects that nobody saw."""
    todo = werf.todo
    more = lambda: ["create ::Secret:unseen"] if werf.revision > 1 else []  # noqa: E731
    werf.todo = lambda digest: [*todo(digest), *more()]
    werf.renders = lambda _: hash_of(f"revision {min(werf.revision, 2)}")


def was_not_judged(cluster: BundleCluster, _: Werf) -> None:
    """By an earlier version of the operator."""
    baseline = {**cluster.status()["baseline"], "bound": None}
    cluster.change("bundles", "shop", status={"baseline": baseline})


def is_run_by_an_unknown_werf(cluster: BundleCluster, _: Werf) -> None:
    """The image's digest, which the baseline had, isn't reported any more."""
    cluster.werf_image = ""


Change = Callable[[BundleCluster, Werf], None]
NOT_BOUND: dict[str, tuple[Change | None, Change | None, bool | None]] = {
    "its chart draws": (draws, None, False),
    "it has what nobody saw": (has_more_after_the_install, None, None),
    "it wasn't judged": (None, was_not_judged, None),
    "another werf may correct it": (None, is_run_by_an_unknown_werf, False),
}
"""What happens before the deploy and after the baseline, and whether a plan is bound then."""


@pytest.mark.needs("approval")
@pytest.mark.needs("charts")
@pytest.mark.parametrize("why", NOT_BOUND)
async def test_by_a_baseline_that_isnt_bound_nothing_is_corrected_unasked(
    cluster: BundleCluster, run: Run, bundle: Make, release: Release, werf: Werf, why: str
) -> None:
    before, after, bound = NOT_BOUND[why]
    if before is not None:
        before(cluster, werf)
    operator = await installed(cluster, run, bundle, release)
    assert cluster.status()["baseline"].get("bound", False) is (before is None)
    if after is not None:
        await operator.stop()
        after(cluster, werf)
        operator = await run(timer_interval=1.0, approval_policy=True)

    await release.check_now(*EDITED)

    await release.judged(*DIFFERS)
    found = await waits(cluster, outcome="Planned", **({} if bound is None else {"bound": bound}))
    await idle(operator)
    assert len(cluster.jobs()) == len(werf.applied) == 1
    approve(cluster, found)
    await eventually(lambda: cluster.status()["history"][0].get("correction"), "the correction")
    latest = cluster.status()["history"][0]
    assert (latest["cause"], latest["approvedBy"]) == ("Correction", "ann")
    # What approved-by says counts as a name only where the chart's policy compares it.
    assert latest.get("by") == (None if after is None else "ann")


@pytest.mark.needs("approval")
async def test_drift_alone_corrects_a_chart_that_draws(
    cluster: BundleCluster, run: Run, bundle: Make, release: Release, werf: Werf
) -> None:
    """A Job that renders once gives it a hash that no other render has."""
    drawn = count()

    def draw(job: dict[str, Any]) -> str:
        command = container(job)["command"]
        renders_twice = command[3] == "plan" and command[7] == "2"
        return "none" if renders_twice else hash_of(str(next(drawn)))

    werf.renders = draw
    await installed(cluster, run, bundle, release, approval={"mode": "Never"})

    await release.check_now(*EDITED)

    await eventually(lambda: history(cluster)[0] == ("Succeeded", True))
    await release.in_sync()
    assert not cluster.jobs("plan")


@pytest.mark.needs("approval")
@pytest.mark.needs("freeze")
async def test_a_later_check_doesnt_replace_what_was_approved(
    cluster: BundleCluster, run: Run, bundle: Make, release: Release, werf: Werf
) -> None:
    """It is approved while a freeze holds it back, and a check finds more."""
    operator = await installed(cluster, run, bundle, release)
    renders(werf, "later")
    await release.check_now(*EDITED)
    found = await waits(cluster, outcome="Planned")
    freeze_all(cluster, reason="incident")
    approve(cluster, found)
    await eventually(lambda: plan(cluster).get("decision") == "Approved")
    renders(werf, "even later")
    await release.check_now(OTHER, DELETE)
    await eventually(lambda: len(release.drift["objects"]) == 3)
    await idle(operator)

    thaw_all(cluster)

    again = await waits(cluster, outcome="Planned", operations=5)
    await idle(operator)
    assert again["id"] != found["id"]
    assert len(werf.applied) == 1
    assert history(cluster)[0] == ("Interrupted", True)
    assert cluster.status()["attempted"]["reason"] == "PlanChanged"
    approve(cluster, again)
    await release.in_sync()
    assert len(werf.applied) == 2


@pytest.mark.needs("approval")
async def test_a_newer_version_that_comes_with_drift_is_planned(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    release: Release,
    werf: Werf,
) -> None:
    """Both are known when the operator decides: no plan of a correction takes its place."""
    operator = await installed(cluster, run, bundle, release, version="1.*")
    renders(werf, "later")
    werf.holds_checks = True
    await release.check_now(*EDITED)
    await operator.stop()
    registry.put("app", "1.1.0", "two")
    werf.finish(cluster.jobs("drift")[-1])
    operator = await run(timer_interval=1.0)
    await release.judged(*DIFFERS)
    newer = await waits(cluster, outcome="Planned", version="1.1.0")
    await idle(operator)
    assert plan(cluster)["id"] == newer["id"]
    approve(cluster, newer)
    await deployed(cluster, version="1.1.0")
    assert history(cluster) == [("Succeeded", False), ("Succeeded", False)]


async def test_a_missing_account_is_named(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    release: Release,
) -> None:
    bundle(drift=HOURLY)
    operator = await run()
    await release.in_sync()
    checks = release.checks
    lose(cluster, "serviceaccounts", "werf")
    operator.let_pass(AN_HOUR)
    found = await release.judged("Unknown", "ServiceAccountMissing")
    assert "ServiceAccount team/werf" in found["message"]
    assert release.checks <= checks + 1
    cluster.put_object("serviceaccounts", "werf")
    operator.let_pass(AN_HOUR)
    await release.in_sync()
