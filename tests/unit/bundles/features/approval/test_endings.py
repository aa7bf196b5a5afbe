"""What the script of a planned deploy, and what was stored by it, make of an attempt's end."""

import pytest
from tests.job_records import job, pod

from copyrator.api.bundle_status import Outcome
from copyrator.api.reasons.bundles import BundleReason
from copyrator.bundles.jobs.job import AUTO_ROLLBACK
from copyrator.bundles.jobs.outcome import (
    Ending,
    checked_ending,
    ending_of,
)
from copyrator.bundles.jobs.revisions import asks_for_rollback
from copyrator.bundles.jobs.script import SealedFile
from copyrator.bundles.plans.endings import planned_ending
from copyrator.bundles.plans.script import PlanExit, deploy_command

BROKEN = BundleReason.DEPLOY_FAILED


MISMATCH = "plan artifact release revision mismatch: expected 4, got 5"


@pytest.mark.parametrize(
    ("text", "is_changed"),
    [
        (f"Error: {MISMATCH}", True),
        (f"Error: release install: validate plan artifact: {MISMATCH}\n\nUse --debug", True),
        (f'Error: release install: failed release "r" (namespace: "n"): {MISMATCH}', True),
        (f"Error: {MISMATCH}\nError: release install: other", False),
        (f"Error: chart render: execution error at (a/templates/b.yaml:1:1): {MISMATCH}", False),
        (f'Error: release install: template: a.yaml:1:1: executing "a" at <x>: {MISMATCH}', False),
        (f"Error: {MISMATCH} or so", False),
    ],
)
def test_another_revision_between_check_and_apply_is_another_plan(
    text: str, is_changed: bool
) -> None:
    """werf 3 refuses the plan that it saved before it writes anything."""
    ending = planned_ending(ending_of(job(), [pod(1, text)]))

    expected = (Outcome.FAILED, BROKEN)
    if is_changed:
        expected = (Outcome.INTERRUPTED, BundleReason.PLAN_CHANGED)
    assert (ending.outcome, ending.reason) == expected


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_deploy_that_stored_something_else_has_failed_whatever_werf_says(
    outcome: Outcome,
) -> None:
    ended = planned_ending(Ending(outcome, BROKEN, "bad", 4, PlanExit.DIFFERENT, is_raw=True))

    assert (ended.outcome, ended.reason) == (Outcome.FAILED, BundleReason.DEPLOYED_DIFFERENTLY)
    assert "as revision 4 isn't what was approved" in ended.message
    assert not ended.is_raw


@pytest.mark.parametrize("code", [None, 0, 1, 9, 15])
def test_whatever_else_a_planned_deploy_ends_with_is_werfs(code: int | None) -> None:
    ending = Ending(Outcome.FAILED, BROKEN, "bad", 4, code)

    assert planned_ending(checked_ending(ending)) is ending


def test_the_pod_of_a_planned_deploy_says_whether_a_rollback_was_asked_for() -> None:
    file = SealedFile("/in/approved", "/in/salt", "/tmp/approved", "0" * 64)
    for flags in ((), (AUTO_ROLLBACK,)):
        command = list(deploy_command(file, file, (), flags))
        body = {"spec": {"containers": [{"name": "werf", "command": command}]}}
        assert asks_for_rollback([body]) is bool(flags)
