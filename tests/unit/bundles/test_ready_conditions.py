"""The conditions of a Bundle, word for word: what a person reads who asks why it isn't ready."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.replacing import replace

from copyrator.api.bundle_status import Attempted, BundleStatus, Deployed, Outcome, Rollback
from copyrator.api.conditions import Health, ReadyCondition
from copyrator.api.reasons.bundles import BundleReason
from copyrator.bundles.engine import conditions as ready_conditions
from copyrator.bundles.engine.gate import PASSED, Candidate, GateResult, Held, Refused, Waiting

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


def ended(rollback: Rollback) -> BundleStatus:
    return replace(FAILED, attempted=replace(FAILED.attempted, rollback=rollback))


READY, PROGRESSING, RETRYING = Health.READY, Health.PROGRESSING, Health.RETRYING
STALLED = Health.STALLED
FAILS = (
    "the operator failed to reconcile this Bundle (KeyError) and retries with growing delays; "
    "report "
    "a bug with the operator's log"
)
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


@pytest.mark.parametrize(
    ("condition", "health", "reason", "message"),
    [
        (
            lambda: ready_conditions.deployed(SETTLED),
            READY,
            "Deployed",
            f"{WHAT} is deployed as revision 3",
        ),
        (
            lambda: ready_conditions.deployed(
                BundleStatus(deployed=replace(GOOD, revision=None)), ("A", "B")
            ),
            READY,
            "Deployed",
            f"{WHAT} is deployed; spec.env can't set A, B: the operator sets them",
        ),
        (
            lambda: ready_conditions.polling("r.example/app", "~1.2"),
            PROGRESSING,
            "Polling",
            "Polling the registry for r.example/app:~1.2",
        ),
        (
            lambda: ready_conditions.taken_over(SETTLED),
            PROGRESSING,
            "Polling",
            (
                "The original operator deployed 1.0.0; taken over unchanged, as "
                "sha256:0123456789ab, unverified"
            ),
        ),
        (
            lambda: ready_conditions.taken_over(BundleStatus(deployed=Deployed(version="1.0.0"))),
            PROGRESSING,
            "Polling",
            (
                "The original operator deployed 1.0.0, which the registry no longer has in that "
                "form; its content is unknown"
            ),
        ),
        (
            lambda: ready_conditions.deploying(
                replace(NEW, attempted=replace(TRY, cause="SpecChanged", by="field manager helm"))
            ),
            PROGRESSING,
            "Deploying",
            f"Deploying {NEXT} with Job deploy-x-7: SpecChanged, by field manager helm",
        ),
        (
            lambda: ready_conditions.running(NEW),
            PROGRESSING,
            "Deploying",
            f"Deploying {NEXT} with Job deploy-x-7",
        ),
        (
            lambda: ready_conditions.blocked(NEW, BundleReason.IMAGE_PULL_FAILED, "no such image"),
            RETRYING,
            "ImagePullFailed",
            "Job deploy-x-7 of 2.0.0 is blocked: no such image",
        ),
        (
            lambda: ready_conditions.will_retry(FAILED),
            RETRYING,
            "DeployFailed",
            f"{NEXT}: Pod/x failed. Next attempt at 2026-01-01T12:00:00Z{LAST_GOOD}",
        ),
        (
            lambda: ready_conditions.will_retry(FAILED, after="the freeze ends"),
            RETRYING,
            "DeployFailed",
            f"{NEXT}: Pod/x failed. Next attempt when the freeze ends{LAST_GOOD}",
        ),
        (
            lambda: ready_conditions.will_retry(
                replace(FAILED, attempted=replace(FAILED.attempted, reason="TimedOut"))
            ),
            RETRYING,
            "TimedOut",
            f"{NEXT}: Pod/x failed. Next attempt at 2026-01-01T12:00:00Z{LAST_GOOD}",
        ),
        (
            lambda: ready_conditions.will_retry(INTERRUPTED),
            RETRYING,
            "DeployFailed",
            (
                f"{NEXT}: evicted. Next attempt at 2026-01-01T12:00:00Z; "
                "this isn't counted as a failure of the version"
                f"{LAST_GOOD}"
            ),
        ),
        (
            lambda: ready_conditions.ended_by_freeze(FAILED),
            PROGRESSING,
            "Frozen",
            f"{NEXT}: Pod/x failed. It is deployed when the freeze ends{LAST_GOOD}",
        ),
        (
            lambda: ready_conditions.quarantined(FAILED),
            STALLED,
            "Quarantined",
            f"{NEXT} failed once: {NOT_AGAIN}{LAST_GOOD}",
        ),
        (
            lambda: ready_conditions.quarantined(
                replace(FAILED, attempted=replace(FAILED.attempted, failures=6))
            ),
            STALLED,
            "Quarantined",
            f"{NEXT} failed 6 times: {NOT_AGAIN}{LAST_GOOD}",
        ),
        (
            lambda: ready_conditions.quarantined(INTERRUPTED),
            STALLED,
            "Quarantined",
            f"{NEXT} failed 0 times: {NOT_AGAIN.replace('Pod/x failed', 'evicted')}{LAST_GOOD}",
        ),
        (
            lambda: ready_conditions.unusable(
                BundleReason.VALUES_MISSING, "Secret v is missing", SETTLED
            ),
            RETRYING,
            "ValuesMissing",
            f"Secret v is missing. {WHAT} stays deployed",
        ),
        (
            lambda: ready_conditions.unusable(BundleReason.FORBIDDEN, "no right", NEW),
            RETRYING,
            "Forbidden",
            "no right",
        ),
        (
            lambda: ready_conditions.unusable(
                BundleReason.FORBIDDEN, "no right", ended(Rollback.SUCCEEDED)
            ),
            RETRYING,
            "Forbidden",
            f"no right. Rolled back: {WHAT} runs, as revision 3",
        ),
        (
            lambda: ready_conditions.unusable(
                BundleReason.FORBIDDEN, "no right", ended(Rollback.FAILED)
            ),
            RETRYING,
            "Forbidden",
            (
                "no right. The rollback failed too: parts of 2.0.0 may be in place. "
                f"The last successful deploy is {WHAT}"
            ),
        ),
        (
            lambda: ready_conditions.unusable(
                BundleReason.FORBIDDEN, "no right", ended(Rollback.UNKNOWN)
            ),
            RETRYING,
            "Forbidden",
            (
                f"no right. Whether it was rolled back to {WHAT} isn't known: the Secrets of the "
                "release can't be listed in app"
            ),
        ),
        (
            lambda: ready_conditions.failing("KeyError", SETTLED, deleting=False),
            RETRYING,
            "DeployFailed",
            f"{FAILS}. {WHAT} stays deployed",
        ),
        (
            lambda: ready_conditions.failing("KeyError", SETTLED, deleting=True),
            RETRYING,
            "UninstallFailed",
            FAILS + WITHOUT_UNINSTALL,
        ),
        (
            lambda: ready_conditions.held(SETTLED, Held(OTHER, (OPEN, CLOSED))),
            PROGRESSING,
            "OutsideWindow",
            f"{NEXT}: the window opens at 20:00. {WHAT} stays deployed",
        ),
        (
            lambda: ready_conditions.held(BundleStatus(), Held(OTHER, (CLOSED, UNSIGNED))),
            STALLED,
            "Unsigned",
            f"{NEXT}: no signature",
        ),
        (
            lambda: ready_conditions.held(BundleStatus(), Held(OTHER, (TELLS,))),
            PROGRESSING,
            "NotPromoted",
            f"{NEXT} hasn't been deployed elsewhere",
        ),
        (
            lambda: ready_conditions.held(BundleStatus(), Held(OTHER, (RETRIED,))),
            RETRYING,
            "Unsigned",
            f"{NEXT}: sign it",
        ),
        (
            lambda: ready_conditions.uninstalling("Job u runs"),
            PROGRESSING,
            "Uninstalling",
            "Job u runs",
        ),
        (
            lambda: ready_conditions.uninstall_failed("Job u failed."),
            RETRYING,
            "UninstallFailed",
            f"Job u failed{WITHOUT_UNINSTALL}",
        ),
    ],
)
def test_a_condition_names_what_is_how_it_is_and_the_remedy(
    condition: Callable[[], ReadyCondition], health: Health, reason: str, message: str
) -> None:
    assert condition() == ReadyCondition(health, reason, message)
