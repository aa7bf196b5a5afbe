"""What a poll leaves in the status, and what a restart reads out of it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.conditions import conditions
from tests.replacing import replace
from tests.status_fields import changed

from copyrator.api.bundle_spec import BundleSpec, TargetCluster
from copyrator.api.bundle_status import (
    Attempted,
    Available,
    BundleStatus,
    Deployed,
    FailedPolls,
    LastError,
    Outcome,
    Rejected,
)
from copyrator.bundles.engine.poll import (
    DesiredVersion,
    count_failure,
    end_failures,
    is_answered,
    is_lenient,
    kept_ready,
    kept_until,
    record_available,
    record_error,
    retry_at,
)
from copyrator.bundles.features.rollback.fields import PinStatus

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
WISH = DesiredVersion(generation=2, spec_hash="s", values_hash="v", request="", login="")
REMOTE = TargetCluster("https://c", "f")


def status(reason: str = "Deployed", **changes: Any) -> BundleStatus:
    attempted = Attempted(
        attempt=1, outcome=Outcome.SUCCEEDED, reason="Deployed", spec_hash="s", values_hash="v"
    )
    found = BundleStatus(
        attempted=attempted,
        available=Available(version="1.0.0", digest="sha256:a"),
        observed_generation=2,
        conditions=conditions({"type": "Ready", "status": "True", "reason": reason}),
    )
    return changed(found, **changes)


def attempted(**changes: Any) -> BundleStatus:
    return status(attempted=replace(status().attempted, **changes))


def pinned(reason: str) -> BundleStatus:
    found = attempted(digest="sha256:b")
    pending = {"type": "UpdatePending", "status": "True", "reason": reason}
    return replace(found, conditions=(*found.conditions, *conditions(pending)))


@pytest.mark.parametrize(
    ("status", "desired", "answered"),
    [
        (status(), WISH, True),
        (status("Quarantined"), WISH, True),
        (status(), replace(WISH, generation=3), False),
        (status(), replace(WISH, spec_hash="t"), False),
        (status(), replace(WISH, values_hash=None), False),
        (status(), replace(WISH, request="forceUpdate"), False),
        (status("TagNotFound"), WISH, False),
        (status("AutoupdateDisabled"), WISH, False),
        (status("Suspended"), WISH, False),
        (status("WouldDowngrade", available=Available()), WISH, True),
        (status("Deployed", available=Available()), WISH, False),  # again, for lack of another
        (status(failed_polls=FailedPolls(count=1, since="2026-01-01T12:00:00Z")), WISH, False),
        (BundleStatus(), WISH, False),
        # taken over from the original: nothing was attempted
        (
            status(attempted=Attempted(), deployed=Deployed(spec_hash="s", values_hash="v")),
            WISH,
            True,
        ),
        (
            status(attempted=Attempted(), deployed=Deployed(spec_hash="t", values_hash="v")),
            WISH,
            False,
        ),
        (status("NoMatchingVersion"), WISH, True),
        # the kubeconfig leads to another cluster, to one at all, or to none any more
        (attempted(), replace(WISH, cluster=REMOTE), False),
        (attempted(server="https://c"), replace(WISH, cluster=REMOTE), True),
        (attempted(server="https://d"), replace(WISH, cluster=REMOTE), False),
        (attempted(server="https://c"), WISH, False),
        # a rollback was requested, and made or not, or was taken back
        (attempted(digest="sha256:b").with_part(PinStatus(digest="sha256:b")), WISH, True),
        (attempted(digest="sha256:b").with_part(PinStatus(digest="sha256:c")), WISH, False),
        (pinned("Pinned"), WISH, False),
        (pinned("AwaitingApproval"), WISH, True),
        (pinned("Pinned").with_part(PinStatus(digest="sha256:b")), WISH, True),
    ],
)
def test_after_a_restart_only_what_has_no_answer_is_asked_at_once(
    status: BundleStatus, desired: DesiredVersion, answered: bool
) -> None:
    assert is_answered(status, desired) is answered


def test_a_failed_attempt_that_waits_for_its_retry_has_its_answer() -> None:
    found = status("DeployFailed")
    failed = replace(found.attempted, outcome=Outcome.FAILED, reason="DeployFailed")

    assert is_answered(replace(found, attempted=failed), WISH)


def offer(name: str, *rejected: Rejected) -> Available:
    return Available(version="1.0.0", digest=f"sha256:{name}", rejected=rejected)


def test_what_was_passed_over_is_news_but_doesnt_make_the_offer_a_new_one() -> None:
    first = record_available(BundleStatus(), offer("a"), NOW, NOW)

    again = record_available(
        first, offer("a", Rejected(version="2.0.0", reason="OutOfRange")), NOW, LATER
    )

    assert again.available.time == first.available.time
    assert again.available.rejected == (Rejected(version="2.0.0", reason="OutOfRange"),)


def test_a_list_without_a_match_takes_the_offer_back_and_leaves_the_target() -> None:
    first = record_available(BundleStatus(), offer("a"), NOW, NOW)

    gone = record_available(first, Available(), LATER, LATER)

    assert (gone.ready, gone.next_poll_at) == (1, "2026-01-01T12:05:00Z")
    assert gone.available == Available(time="2026-01-01T12:05:00Z")
    assert gone.target == first.target
    assert (
        record_available(gone, Available(), LATER, LATER + timedelta(hours=1)).available
        == gone.available
    )


def test_the_same_offer_keeps_its_time() -> None:
    slot = NOW + timedelta(hours=1)
    first = record_available(BundleStatus(), offer("a"), slot, NOW)

    again = record_available(first, offer("a"), slot, NOW + timedelta(minutes=5))
    other = record_available(first, offer("b"), slot, NOW + timedelta(minutes=5))

    assert again == first
    assert other.available.time == "2026-01-01T12:05:00Z"
    assert first.target.to_dict() == {"digest": "sha256:a", "version": "1.0.0"}
    assert (first.ready, first.next_poll_at) == (1, "2026-01-01T13:00:00Z")
    assert record_available(BundleStatus(), Available(), slot, NOW).ready == 1


def test_the_same_error_keeps_its_time() -> None:
    first = record_error(BundleStatus(), "RateLimited", "slow down", NOW)

    assert record_error(first, "RateLimited", "slow down", NOW + timedelta(hours=1)) == first
    assert record_error(first, "RateLimited", "other", NOW).last_error == LastError(
        reason="RateLimited", message="other", time="2026-01-01T12:00:00Z"
    )


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [(Outcome.FAILED, NOW), (Outcome.INTERRUPTED, NOW), (Outcome.RUNNING, None), (None, None)],
)
def test_only_a_failure_is_due_again(outcome: Outcome | None, expected: datetime | None) -> None:
    found = BundleStatus(attempted=Attempted(outcome=outcome, next_retry_at="2026-01-01T12:00:00Z"))

    assert retry_at(found) == expected


@pytest.mark.parametrize(("known", "kept"), [(None, 1), (0, 0), (1, 1)])
def test_ready_stays_until_something_is_known(known: int | None, kept: int) -> None:
    assert kept_ready(BundleStatus(ready=known)) == kept


def ready(state: str, reason: str, **changes: Any) -> BundleStatus:
    found = {"type": "Ready", "status": state, "reason": reason}
    return status(conditions=conditions(found), **changes)


@pytest.mark.parametrize(
    ("before", "desired", "handled", "lenient"),
    [
        (ready("True", "Deployed"), WISH, WISH, True),
        (ready("True", "Suspended"), WISH, WISH, True),
        (ready("Unknown", "OutsideWindow"), WISH, WISH, True),
        (ready("Unknown", "Planning"), WISH, WISH, True),
        # A request isn't an edit.
        (ready("True", "Deployed"), replace(WISH, request="now"), WISH, True),
        (ready("True", "Deployed"), WISH, replace(WISH, request="now"), True),
        # After a restart the status tells.
        (ready("True", "Deployed"), WISH, None, True),
        (ready("True", "Deployed"), replace(WISH, request="now"), None, True),
        (ready("True", "Deployed"), replace(WISH, values_hash="w"), None, False),
        (ready("True", "Deployed"), replace(WISH, generation=3), None, False),
        # What is False says a fault already.
        (ready("False", "RegistryUnreachable"), WISH, WISH, False),
        (ready("False", "AuthenticationFailed"), WISH, WISH, False),
        (ready("False", "TagNotFound"), WISH, WISH, False),
        (ready("False", "ValuesMissing"), WISH, WISH, False),
        (ready("False", "DeployFailed"), WISH, WISH, False),
        # A first poll: of the Bundle, of an edit, after updates were disabled.
        (BundleStatus(), WISH, None, False),
        (status(conditions=()), WISH, WISH, False),
        (ready("Unknown", "Polling"), WISH, WISH, False),
        (ready("Unknown", "Deploying"), WISH, WISH, False),
        (ready("True", "AutoupdateDisabled"), WISH, WISH, False),
        (ready("True", "Deployed"), replace(WISH, generation=3), WISH, False),
        (ready("True", "Deployed", observed_generation=1), WISH, WISH, False),
        (ready("True", "Deployed"), replace(WISH, spec_hash="t"), WISH, False),
        (ready("True", "Deployed"), replace(WISH, values_hash="w"), WISH, False),
        (ready("True", "Deployed"), replace(WISH, login="other"), WISH, False),
        (ready("True", "Deployed"), replace(WISH, read="other"), WISH, False),
        (ready("True", "Deployed"), replace(WISH, further=("sha256:a",)), WISH, False),
    ],
)
def test_ready_is_kept_only_where_it_says_something_about_what_is_polled_for(
    before: BundleStatus, desired: DesiredVersion, handled: DesiredVersion | None, lenient: bool
) -> None:
    assert is_lenient(before, desired, handled) is lenient


def test_failed_polls_are_counted_up_to_three_since_the_first() -> None:
    found, counted = status(), []
    for number in range(5):
        found = count_failure(found, NOW + timedelta(minutes=number))
        counted.append(found.failed_polls)
    since = "2026-01-01T12:00:00Z"
    assert counted == [FailedPolls(count=count, since=since) for count in (1, 2, 3, 3, 3)]
    at_once = count_failure(count_failure(status(), NOW), NOW)
    assert at_once.failed_polls == FailedPolls(count=2, since=since)


@pytest.mark.parametrize(
    "since", ["2026-01-01T12:00:01Z", "9999-01-01T00:00:00Z", "long ago", None]
)
def test_a_row_that_begins_later_than_now_begins_now(since: str | None) -> None:
    """As by a clock that was set back, or a forged status."""
    found = count_failure(status(failed_polls=FailedPolls(count=3, since=since)), NOW)
    assert found.failed_polls == FailedPolls(count=1, since="2026-01-01T12:00:00Z")


def test_a_success_ends_the_count_and_the_error_of_a_poll() -> None:
    failed = record_error(count_failure(status(), NOW), "RegistryUnreachable", "502", NOW)
    assert end_failures(failed) == status()
    assert record_available(failed, status().available, LATER, LATER).last_error == LastError()
    assert record_available(failed, Available(), LATER, LATER).failed_polls == FailedPolls()
    of_a_deploy = record_error(count_failure(status(), NOW), "DeployFailed", "boom", NOW)
    assert end_failures(of_a_deploy).last_error == of_a_deploy.last_error
    alone = record_error(status(), "RegistryUnreachable", "of a Job", NOW)
    assert end_failures(alone) == alone


def test_ready_is_kept_until_a_time_only_while_polls_fail_and_it_is_not_false() -> None:
    spec = BundleSpec(
        namespace="team",
        name="shop",
        registry="r.example",
        repo="app",
        project_namespace="team",
        interval=600.0,
    )
    once = count_failure(ready("True", "Deployed"), NOW)
    thrice = count_failure(count_failure(once, LATER), LATER)
    assert kept_until(once, spec) == NOW + timedelta(minutes=30)
    assert kept_until(thrice, spec) == NOW + timedelta(minutes=20)
    assert kept_until(ready("True", "Deployed"), spec) is None
    assert kept_until(count_failure(ready("False", "RateLimited"), NOW), spec) is None
    for since in ("long ago", "9999-12-31T23:59:59Z"):
        forged = replace(once, failed_polls=FailedPolls(count=3, since=since))
        assert kept_until(forged, spec) is None
