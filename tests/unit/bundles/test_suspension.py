"""Ready of a Bundle that is suspended, or whose updates are disabled: each former one, each edit.

Ready keeps its status, so that ``kubectl wait`` and health checks of GitOps tools don't hang.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.replacing import replace

from copyrator.api.bundle_status import Attempted, BundleStatus, Deployed, Outcome
from copyrator.api.conditions import Health, ReadyCondition
from copyrator.bundles.engine import conditions as ready_conditions
from copyrator.bundles.engine.bundle import BundleEntry, read_entry
from copyrator.bundles.engine.deciding import DeployReason
from copyrator.bundles.engine.status import keep_ready
from copyrator.bundles.fields import BundleDefaults

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
SPEC = {"registry": "r.example.com", "repo": "app", "version": "1.*"}
OFF = {"operator.werf.dev/disable-autoupdate": ""}
DIGEST = "sha256:0123456789abcdef"
ATTEMPT = Attempted(version="1.0.0", digest=DIGEST, job="shop-1", attempt=1)


def verdict(health: Health, reason: str, message: str) -> ReadyCondition:
    return ReadyCondition(health, reason, message)


DEPLOYED = verdict(Health.READY, "Deployed", "1.0.0 (sha256:0123456789ab) is deployed")
FAILED = verdict(Health.RETRYING, "DeployFailed", "1.0.0: Pod/x failed. Next attempt at 12:00")
STALLED = verdict(Health.STALLED, "Quarantined", "1.0.0 failed 3 times")
UNREACHABLE = verdict(Health.RETRYING, "RegistryUnreachable", "r.example.com can't be reached")
POLLING = verdict(Health.PROGRESSING, "Polling", "Polling the registry for r.example.com/app:1.*")
WAITING = verdict(Health.PROGRESSING, "AwaitingApproval", "1.0.0: plan 7 waits for approval")
DEPLOYING = verdict(Health.PROGRESSING, "Deploying", "Deploying 1.0.0 with Job shop-1")
CONFLICT = verdict(Health.STALLED, "ReleaseConflict", "Bundle a/shop already deploys release shop")
INVALID = verdict(Health.STALLED, "InvalidSpec", "spec.interval: must be a duration")
IDLE = ready_conditions.suspended("1.0.0", DIGEST, None)


@dataclass
class Shop:
    """A Bundle whose status is written as the operator does."""

    spec: dict[str, Any] = field(default_factory=lambda: dict(SPEC))
    annotations: dict[str, str] = field(default_factory=dict)
    generation: int = 1
    status: dict[str, Any] = field(default_factory=dict)
    is_deleting: bool = False

    def entry(self) -> BundleEntry:
        metadata: dict[str, Any] = {"namespace": "team", "name": "shop"}
        metadata |= {"generation": self.generation, "annotations": self.annotations}
        metadata |= {"deletionTimestamp": "2026-05-04T12:00:00Z"} if self.is_deleting else {}
        body = {"metadata": metadata, "spec": self.spec, "status": self.status}
        return read_entry(json.loads(json.dumps(body)), BundleDefaults())

    def edit(self, **spec: Any) -> None:
        self.spec |= spec
        self.generation += 1

    def suspend(self, by: str) -> None:
        if by == "Suspended":
            self.edit(suspend=True)
        else:
            self.annotations = dict(OFF)

    def resume(self, by: str) -> None:
        if by == "Suspended":
            self.edit(suspend=False)
        else:
            self.annotations = {}

    def write(
        self, found: ReadyCondition, change: Callable[[BundleStatus], BundleStatus] | None = None
    ) -> tuple[str, ...]:
        """Take a verdict; returns Ready, Reconciling, Stalled, and Ready's reason and message."""
        entry = self.entry()
        status = change(entry.status) if change else entry.status
        status, ready = keep_ready(entry, status, found)
        status = replace(
            status, conditions=entry.status.conditions, observed_generation=self.generation
        )
        self.status = ready_conditions.with_conditions(status, ready.conditions, NOW).to_dict()
        return self.ready

    @property
    def ready(self) -> tuple[str, ...]:
        ready, reconciling, stalled = self.status["conditions"][:3]
        told = ready["reason"], ready["message"]
        return ready["status"], reconciling["status"], stalled["status"], *told

    @property
    def is_observed(self) -> bool:
        conditions = self.status["conditions"]
        found = {one["observedGeneration"] for one in conditions}
        return found | {self.status["observedGeneration"]} == {self.generation}


def deploy(entry: BundleEntry) -> Callable[[BundleStatus], BundleStatus]:
    there = Deployed(version="1.0.0", digest=DIGEST, spec_hash=entry.spec_hash)
    return lambda status: replace(status, deployed=there)


def shop(former: ReadyCondition | None, **status: Any) -> Shop:
    found = Shop()
    if former is not None:
        found.write(former, deploy(found.entry()) if former is DEPLOYED else None)
    found.status |= status
    return found


BYS = ("Suspended", "AutoupdateDisabled")
FORMERS = {
    "up to date": (DEPLOYED, "True"),
    "failed": (FAILED, "False"),
    "quarantined": (STALLED, "False"),
    "no registry": (UNREACHABLE, "False"),
    "polling": (POLLING, "Unknown"),
    "waiting for approval": (WAITING, "Unknown"),
    "a job ended unseen": (DEPLOYING, "Unknown"),
    "another's release": (CONFLICT, "False"),
}


def before(former: ReadyCondition) -> str:
    return f"suspended; before: {former.reason}: {former.message}"


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize(("former", "status"), FORMERS.values(), ids=FORMERS)
def test_what_it_was_stays_whatever_is_found_meanwhile(
    former: ReadyCondition, status: str, by: str
) -> None:
    """Also after a restart: all that is known is in the status."""
    bundle = shop(former)
    bundle.suspend(by)
    for found in (IDLE, UNREACHABLE, POLLING, FAILED, IDLE, IDLE):
        assert bundle.write(found) == (status, "False", "False", by, before(former))


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize(("former", "status"), FORMERS.values(), ids=FORMERS)
def test_edits_while_it_is_suspended(former: ReadyCondition, status: str, by: str) -> None:
    bundle = shop(former)
    bundle.suspend(by)
    bundle.write(IDLE)

    bundle.edit(interval="x")  # isn't valid
    assert bundle.write(INVALID) == ("False", "False", "True", "InvalidSpec", INVALID.message)
    assert bundle.is_observed

    bundle.edit(interval="1h")
    text = f"{before(former)}; edited while suspended"
    assert bundle.write(IDLE) == (status, "False", "False", by, text)
    assert bundle.is_observed
    assert bundle.write(IDLE) == (status, "False", "False", by, text), "again"

    bundle.resume(by)
    assert bundle.write(DEPLOYED)[0] == "True"
    assert bundle.ready[-1] == DEPLOYED.message
    assert "suspension" not in bundle.status


@pytest.mark.parametrize(("first", "second"), [BYS, BYS[::-1]])
def test_suspended_twice_it_still_says_what_it_was(first: str, second: str) -> None:
    bundle = shop(DEPLOYED)
    bundle.suspend(first)
    bundle.write(IDLE)
    bundle.suspend(second)
    assert bundle.write(IDLE)[-1].startswith(before(DEPLOYED))
    bundle.resume(first)
    assert bundle.write(IDLE)[:4] == ("True", "False", "False", second)
    assert bundle.ready[-1].startswith(before(DEPLOYED))
    assert bundle.ready[-1].count("suspended; before") == 1
    bundle.resume(second)
    bundle.write(FAILED)
    bundle.suspend(first)
    assert bundle.write(IDLE)[-1] == before(FAILED), "of the second time"


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize(
    ("outcome", "status"), [(DEPLOYED, "True"), (FAILED, "False"), (STALLED, "False")]
)
def test_a_job_goes_on_and_its_outcome_is_what_ready_was(
    outcome: ReadyCondition, status: str, by: str
) -> None:
    bundle = shop(DEPLOYING, attempted=replace(ATTEMPT, outcome=Outcome.RUNNING).to_dict())
    bundle.suspend(by)
    assert bundle.write(DEPLOYING)[:4] == ("Unknown", "True", "False", "Deploying")

    def end(status: BundleStatus) -> BundleStatus:
        status = replace(status, attempted=replace(ATTEMPT, outcome=Outcome.SUCCEEDED))
        return deploy(bundle.entry())(status)

    assert bundle.write(outcome, end) == (status, "False", "False", by, before(outcome))
    assert bundle.write(IDLE) == (status, "False", "False", by, before(outcome))


@pytest.mark.parametrize(
    ("need", "tail"),
    [
        (DeployReason.FIRST, "; 1.1.0 (sha256:0123456789ab) is available"),
        (DeployReason.VERSION, "; 1.1.0 (sha256:0123456789ab) is available"),
        (DeployReason.VALUES, "; the values changed"),
        (DeployReason.SPEC, "; the spec changed"),
        (DeployReason.REQUEST, "; a deploy was requested"),
        (DeployReason.RETRY, ""),
        (DeployReason.AGAIN, ""),
        (DeployReason.REPAIR, ""),
        (DeployReason.CORRECTION, ""),
        (None, ""),
    ],
)
def test_what_is_deployed_once_it_is_resumed_is_said(need: DeployReason | None, tail: str) -> None:
    bundle = shop(DEPLOYED)
    bundle.suspend("Suspended")
    found = ready_conditions.suspended("1.1.0", DIGEST, need)
    assert bundle.write(found)[-1] == before(DEPLOYED) + tail
    assert bundle.write(UNREACHABLE)[-1] == before(DEPLOYED) + tail, "until it is decided again"
    assert bundle.write(IDLE)[-1] == before(DEPLOYED)


@pytest.mark.parametrize(
    "refused",
    [
        INVALID,
        verdict(Health.STALLED, "NamespaceChanged", "the release is deployed in a"),
        CONFLICT,
        verdict(Health.STALLED, "ReleaseNotAccepted", "namespace b doesn't accept it"),
    ],
    ids=lambda one: one.reason,
)
@pytest.mark.parametrize("by", BYS)
def test_what_is_refused_is_refused_while_it_is_suspended_too(
    refused: ReadyCondition, by: str
) -> None:
    bundle = shop(DEPLOYED)
    bundle.suspend(by)
    bundle.write(IDLE)
    assert bundle.write(refused) == ("False", "False", "True", refused.reason, refused.message)
    assert bundle.write(IDLE)[-1] == before(DEPLOYED)


def test_a_bundle_that_is_being_deleted_says_so() -> None:
    bundle = shop(DEPLOYED)
    bundle.suspend("Suspended")
    bundle.write(IDLE)
    bundle.is_deleting = True
    found = verdict(Health.PROGRESSING, "Uninstalling", "Uninstalling shop")
    assert bundle.write(found) == ("Unknown", "True", "False", "Uninstalling", "Uninstalling shop")


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        ("Unknown", "Suspended", "Nothing is deployed while spec.suspend is true"),
        ("True", "AutoupdateDisabled", "Polls and updates are disabled"),
        ("Unknown", "AutoupdateDisabled", "suspended; before: Deployed: x"),
    ],
)
def test_a_status_of_an_earlier_operator_keeps_its_status(
    status: str, reason: str, message: str
) -> None:
    """It recorded nothing, so nothing is said of before, and nothing is nested."""
    bundle = shop(DEPLOYED)
    bundle.suspend(reason)
    bundle.status["observedGeneration"] = bundle.generation
    bundle.status["conditions"][0] |= {"status": status, "reason": reason, "message": message}
    assert bundle.write(IDLE) == (status, "False", "False", reason, "suspended")
    assert bundle.write(IDLE) == (status, "False", "False", reason, "suspended")


@pytest.mark.parametrize(
    ("stored", "ready", "message"),
    [
        ({"ready": "Maybe", "reason": "X", "generation": 1}, "Unknown", "suspended; before: X"),
        ({"ready": 1, "reason": ["X"], "generation": "1"}, "True", before(DEPLOYED)),
        ({"ready": "True", "reason": "X", "message": "m" * 9000, "generation": 2}, "True", None),
        ("text", "True", before(DEPLOYED)),
    ],
)
def test_a_record_that_others_wrote_is_bounded_and_never_fails(
    stored: Any, ready: str, message: str | None
) -> None:
    bundle = shop(DEPLOYED)
    bundle.edit(suspend=True)
    bundle.status["suspension"] = stored
    found = bundle.write(IDLE)
    assert found[0] == ready
    text = found[-1].removesuffix("; edited while suspended")
    assert text == (message or "suspended; before: X: " + "m" * 1024)
