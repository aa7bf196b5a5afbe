"""The conditions of a Bundle, word for word: what a person reads who asks why it isn't ready."""

from __future__ import annotations

from typing import Any

import pytest
from tests.replacing import replace

from copyrator.api.bundle_status import Attempted, BundleStatus, Deployed, Outcome, Rollback
from copyrator.api.conditions import Health, ReadyCondition
from copyrator.api.reasons.bundles import BundleEvent, BundleReason
from copyrator.bundles.engine import conditions as told
from copyrator.bundles.engine.gate import PASSED, Candidate, GateResult, Held, Refused, Waiting
from copyrator.bundles.features import listed
from copyrator.bundles.fields import bundle_reasons, read_reason

GOOD = Deployed(version="1.0.0", digest="sha256:0123456789abcdef", revision=3, namespace="app")
TRY = Attempted(version="2.0.0", digest="sha256:fedcba9876543210", job="deploy-x-7")
NEW = BundleStatus(attempted=TRY)
FAILED = BundleStatus(
    deployed=GOOD,
    attempted=replace(
        TRY,
        outcome=Outcome.FAILED,
        reason=BundleReason.DEPLOY_FAILED,
        message="Pod/x failed. ",
        failures=1,
        next_retry_at="2026-01-01T12:00:00Z",
    ),
)
INTERRUPTED = replace(
    FAILED,
    attempted=replace(
        FAILED.attempted, outcome=Outcome.INTERRUPTED, reason=None, message="evicted", failures=None
    ),
)
SETTLED = BundleStatus(deployed=GOOD, attempted=replace(TRY, outcome=Outcome.SUCCEEDED))
WHAT = "1.0.0 (sha256:0123456789ab)"
NEXT = "2.0.0 (sha256:fedcba987654)"


WITHOUT_UNINSTALL = (
    ". To delete the Bundle without uninstalling, set the annotation "
    'operator.werf.dev/force-delete: "true"'
)
NOT_AGAIN = (
    "Pod/x failed. It isn't retried until the tag, the spec or the values change, or the "
    "annotation operator.werf.dev/requestedAt is set"
)
LAST_GOOD = f". The last successful deploy is {WHAT}"
OTHER = Candidate("2.0.0", "sha256:fedcba9876543210")
OPEN = GateResult("window", PASSED)
TELLS = GateResult("promotion", Waiting("NotPromoted", f"{NEXT} hasn't been deployed elsewhere"))
CLOSED = GateResult("window", Waiting("OutsideWindow", "the window opens at 20:00. "))
UNSIGNED = GateResult("signature", Refused("Unsigned", "no signature"))
RETRIED = GateResult("signature", Refused("Unsigned", "sign it", is_retried=True))


def failed(**changes: Any) -> BundleStatus:
    return replace(FAILED, attempted=replace(FAILED.attempted, **changes))


BY_HELM = replace(NEW, attempted=replace(TRY, cause="SpecChanged", by="field manager helm"))
TAKEN = BundleStatus(deployed=Deployed(version="1.0.0"))
ROLLED_BACK, NOT_BACK, UNSURE = (failed(rollback=one) for one in Rollback)
MISSING, FORBIDDEN = BundleReason.VALUES_MISSING, BundleReason.FORBIDDEN


CONDITIONS: dict[Health, list[tuple[ReadyCondition, str, str]]] = {
    Health.READY: [
        (told.deployed(SETTLED), "Deployed", f"{WHAT} is deployed as revision 3"),
        (told.deployed(SETTLED, ("A", "B")), "Deployed", "; spec.env can't set A, B: the operator"),
    ],
    Health.PROGRESSING: [
        (told.polling("r/app", "~1.2"), "Polling", "Polling the registry for r/app:~1.2"),
        (
            told.taken_over(SETTLED),
            "Polling",
            "1.0.0; taken over unchanged, as sha256:0123456789ab",
        ),
        (told.taken_over(TAKEN), "Polling", "which the registry no longer has in that form"),
        (told.deploying(BY_HELM), "Deploying", "x-7: SpecChanged, by field manager helm"),
        (told.running(NEW), "Deploying", f"Deploying {NEXT} with Job deploy-x-7"),
        (told.ended_by_freeze(FAILED), "Frozen", f"It is deployed when the freeze ends{LAST_GOOD}"),
        (told.held(SETTLED, Held(OTHER, (OPEN, CLOSED))), "OutsideWindow", "opens at 20:00. 1.0.0"),
        (told.held(BundleStatus(), Held(OTHER, (TELLS,))), "NotPromoted", f"{NEXT} hasn't been"),
        (told.uninstalling("Job u runs"), "Uninstalling", "Job u runs"),
    ],
    Health.RETRYING: [
        (told.blocked(NEW, MISSING, "no such v"), "ValuesMissing", "is blocked: no such v"),
        (told.will_retry(FAILED), "DeployFailed", f"at 2026-01-01T12:00:00Z{LAST_GOOD}"),
        (told.will_retry(FAILED, after="x ends"), "DeployFailed", f"when x ends{LAST_GOOD}"),
        (told.will_retry(failed(reason="TimedOut")), "TimedOut", f"{NEXT}: Pod/x failed. Next"),
        (
            told.will_retry(INTERRUPTED),
            "DeployFailed",
            "this isn't counted as a failure of the ver",
        ),
        (told.unusable(MISSING, "v is gone", SETTLED), "ValuesMissing", f"{WHAT} stays deployed"),
        (told.unusable(FORBIDDEN, "no right", NEW), "Forbidden", "no right"),
        (told.unusable(FORBIDDEN, "no", ROLLED_BACK), "Forbidden", f"Rolled back: {WHAT} runs, as"),
        (told.unusable(FORBIDDEN, "no", NOT_BACK), "Forbidden", "parts of 2.0.0 may be in place"),
        (told.unusable(FORBIDDEN, "no", UNSURE), "Forbidden", f"rolled back to {WHAT} isn't known"),
        (
            told.failing("KeyError", SETTLED, deleting=False),
            "DeployFailed",
            "this Bundle (KeyError)",
        ),
        (told.failing("KeyError", SETTLED, deleting=True), "UninstallFailed", WITHOUT_UNINSTALL),
        (told.held(BundleStatus(), Held(OTHER, (RETRIED,))), "Unsigned", f"{NEXT}: sign it"),
        (told.uninstall_failed("u failed."), "UninstallFailed", f"u failed{WITHOUT_UNINSTALL}"),
    ],
    Health.STALLED: [
        (told.quarantined(FAILED), "Quarantined", f"failed once: {NOT_AGAIN}{LAST_GOOD}"),
        (told.quarantined(failed(failures=6)), "Quarantined", f"failed 6 times: {NOT_AGAIN}"),
        (told.quarantined(INTERRUPTED), "Quarantined", "failed 0 times: evicted. It isn't retried"),
        (told.held(BundleStatus(), Held(OTHER, (CLOSED, UNSIGNED))), "Unsigned", "no signature"),
    ],
}


@pytest.mark.parametrize(
    ("health", "found", "reason", "words"),
    [(health, *row) for health, rows in CONDITIONS.items() for row in rows],
)
def test_a_condition_names_what_is_how_it_is_and_the_remedy(
    health: Health, found: ReadyCondition, reason: str, words: str
) -> None:
    assert (found.health, found.reason) == (health, reason)
    assert words in found.message


# --- The reasons of the engine and of the features, as one table


@pytest.mark.parametrize(
    ("engine", "name"),
    [(BundleReason, "REASONS"), (BundleEvent, "EVENTS")],
    ids=["reasons", "events"],
)
def test_no_word_has_two_rows(engine: type[BundleReason | BundleEvent], name: str) -> None:
    words = [str(row) for kind in (engine, *listed("reasons", name)) for row in kind]
    assert len(words) > len(engine)
    assert len(words) == len(set(words))


def test_a_word_of_a_status_is_its_row() -> None:
    assert [read_reason(str(one)) for one in bundle_reasons().values()] == [
        *bundle_reasons().values()
    ]
    assert read_reason("Forged") == "Forged"
