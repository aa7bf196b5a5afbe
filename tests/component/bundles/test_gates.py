"""Gates: which version is deployed, what waits, and until when; the gates are the tests' own."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

import pytest
from tests.component.bundles.approvals import annotate, condition, idle
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually, polled
from tests.component.oci.fake_registry import FakeRegistry

from copyrator.api.bundle_spec import BundleSpec
from copyrator.bundles.engine.gate import (
    MAX_CANDIDATES,
    PASSED,
    Candidate,
    Facts,
    Gate,
    Gates,
    Occasion,
    Refused,
    Verdict,
    Waiting,
)

HEADS = ("HEAD", "/manifests/")
NOT_FORCED = frozenset(Occasion) - {Occasion.FORCE}


@dataclass
class Rule:
    """A gate whose verdicts a test changes: by the version, or by its digest."""

    name: str
    occasions: frozenset[Occasion] = frozenset(Occasion)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    asked: list[tuple[str, Occasion]] = field(default_factory=list)

    def judge(self, spec: BundleSpec, candidate: Candidate, facts: Facts, now: datetime) -> Verdict:
        self.asked.append((candidate.version, facts.occasion))
        for named in (candidate.digest, candidate.version, "*"):
            if named in self.verdicts:
                found = self.verdicts[named]
                opens = found.until if isinstance(found, Waiting) else None
                return PASSED if opens is not None and now >= opens else found
        return PASSED

    @property
    def gate(self) -> Gate:
        return Gate(self.name, lambda spec: spec.name != "free", self.occasions, self.judge)


@pytest.fixture
def signed() -> Rule:
    return Rule("signed")


@pytest.fixture
def window() -> Rule:
    return Rule("window", NOT_FORCED)


@pytest.fixture
def run(run: Run, signed: Rule, window: Rule) -> Run:
    """Its operators have these gates."""
    return partial(run, gates=Gates(version=(signed.gate,), moment=(window.gate,)))


async def deployed(cluster: BundleCluster, version: str, name: str = "shop") -> None:
    """It runs, whatever waits."""
    await eventually(
        lambda: (
            cluster.reason(name) == "Deployed"
            and cluster.status(name).get("deployed", {}).get("version") == version
        ),
        f"{version} deployed; {cluster.reason(name)} {cluster.message(name)}",
    )


async def test_the_highest_version_that_passes_is_deployed_and_the_others_are_named(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    signed: Rule,
) -> None:
    for version in ("1.0.1", "1.0.2", "1.0.3"):
        registry.put("app", version, version)
    signed.verdicts = {
        "1.0.3": Refused("Unsigned", "no signature"),
        "1.0.2": Waiting("TooYoung", "seen a moment ago"),
    }
    bundle(version="1.0.*")
    await run()
    await deployed(cluster, "1.0.1")
    status = cluster.status()
    assert status["available"]["version"] == "1.0.1"
    assert status["available"]["rejected"] == [
        {"version": "1.0.3", "reason": "Unsigned"},
        {"version": "1.0.2", "reason": "TooYoung"},
    ]
    assert status["gates"] == [
        {
            "name": "signed",
            "state": "Refused",
            "reason": "Unsigned",
            "message": "no signature",
        }
    ]
    assert condition(cluster, "Ready") == ("True", "Deployed")
    assert condition(cluster, "UpdatePending") == ("True", "Unsigned")


async def test_a_version_that_passes_later_is_deployed_then(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    signed: Rule,
) -> None:
    signed.verdicts = {"1.0.1": Refused("Unsigned", "no signature")}
    registry.put("app", "1.0.1", "next")
    bundle(version="1.0.*")
    operator = await run(timer_interval=1.0)
    await deployed(cluster, "1.0.0")
    writes = cluster.bundle_writes()
    await polled(operator, registry)
    assert cluster.bundle_writes() == writes, "a version that is refused is no news at each poll"
    signed.verdicts.clear()
    await deployed(cluster, "1.0.1")
    assert condition(cluster, "UpdatePending") == ("False", "UpToDate")
    assert cluster.status()["gates"] == [{"name": "signed", "state": "Passed"}]


async def test_at_most_fifty_are_asked_for(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    signed: Rule,
) -> None:
    for number in range(MAX_CANDIDATES + 10):
        registry.put("app", f"1.0.{number}", f"{number}")
    signed.verdicts = {"*": Refused("Unsigned", "no signature")}
    bundle(version="1.0.*")
    await run()
    await eventually(lambda: cluster.reason() == "Unsigned")
    assert registry.count(*HEADS) == MAX_CANDIDATES
    assert {version for version, _ in signed.asked} == {
        f"1.0.{number}" for number in range(10, MAX_CANDIDATES + 10)
    }


async def test_a_tag_that_names_a_refused_digest_leaves_the_deployed_one_to_be_deployed(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    signed: Rule,
) -> None:
    bundle(version="1.0.0")
    await run(timer_interval=1.0)
    await deployed(cluster, "1.0.0")
    first = cluster.status()["deployed"]["digest"]
    second = registry.put("app", "1.0.0", "pushed anew")
    signed.verdicts = {second: Refused("Unsigned", "no signature")}
    await eventually(lambda: condition(cluster, "UpdatePending") == ("True", "Unsigned"))
    assert condition(cluster, "Ready") == ("True", "Deployed")

    cluster.change("bundles", "shop", spec={"env": {"WERF_ENV": "blue"}})
    await eventually(lambda: len(cluster.jobs()) == 2)
    await deployed(cluster, "1.0.0")
    assert cluster.status()["deployed"]["digest"] == first
    assert ("1.0.0", Occasion.EDIT) in signed.asked


async def test_a_wait_that_ends_by_itself_ends_then_also_after_a_restart(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    window: Rule,
) -> None:
    operator = await run()
    opens = (operator.now() + timedelta(hours=1)).replace(microsecond=0)
    window.verdicts = {"*": Waiting("OutsideWindow", "opens soon", opens)}
    bundle(version="1.0.0")

    await eventually(lambda: cluster.reason() == "OutsideWindow")
    assert condition(cluster, "Ready")[0] == "Unknown"
    assert condition(cluster, "Reconciling")[0] == "True"
    assert cluster.status()["gates"][-1]["until"] == opens.strftime("%Y-%m-%dT%H:%M:%SZ")
    await operator.stop()
    operator = await run()
    operator.let_pass(timedelta(minutes=59))
    await idle(operator)
    assert cluster.jobs() == []
    operator.let_pass(timedelta(minutes=1))
    await deployed(cluster, "1.0.0")
    assert operator.now() >= opens


async def test_a_newer_version_waits_while_the_deployed_one_is_ready_and_an_edit_is_not(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    window: Rule,
) -> None:
    bundle(version="1.*")
    operator = await run(timer_interval=1.0)
    await deployed(cluster, "1.0.0")
    window.verdicts = {"*": Waiting("OutsideWindow", "opens on Monday")}
    registry.put("app", "1.1.0", "next")
    await eventually(lambda: condition(cluster, "UpdatePending") == ("True", "OutsideWindow"))
    assert condition(cluster, "Ready") == ("True", "Deployed")
    assert cluster.status()["available"]["version"] == "1.1.0"
    writes = cluster.bundle_writes()
    await polled(operator, registry)
    assert cluster.bundle_writes() == writes

    cluster.change("bundles", "shop", spec={"env": {"WERF_ENV": "blue"}})
    await eventually(lambda: condition(cluster, "Ready") == ("Unknown", "OutsideWindow"))
    assert condition(cluster, "Reconciling")[0] == "True"
    assert len(cluster.jobs()) == 1
    window.verdicts.clear()
    await deployed(cluster, "1.1.0")


@pytest.mark.parametrize(
    ("verdict", "is_deployed"),
    [(Refused("Unsigned", "no signature"), False), (Waiting("NotPromoted", "not yet"), True)],
    ids=str,
)
async def test_a_request_is_echoed_where_version_gates_let_nothing_be_deployed(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    signed: Rule,
    verdict: Verdict,
    is_deployed: bool,
) -> None:
    bundle(version="1.0.0")
    await run()
    if is_deployed:
        await deployed(cluster, "1.0.0")
    signed.verdicts = {"*": verdict}
    annotate(cluster, requestedAt="now", forceAt="then")
    await eventually(lambda: cluster.status().get("lastHandledRequest") == "now")
    assert cluster.status()["lastHandledForce"] == "then"
    assert "lastFailedRequest" not in cluster.status()
    cluster.change("bundles", "shop", status={"forceUpdate": 1})
    await eventually(lambda: cluster.status().get("forceUpdate") == 0)
    assert len(cluster.jobs()) == is_deployed
