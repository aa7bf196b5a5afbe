"""The times of polls and checks: spread, shared, and the same after a restart."""

import hashlib
import random
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
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
    LAST,
    Answered,
    Asked,
    DesiredVersion,
    Failures,
    Idle,
    Poll,
    Polling,
    Rhythm,
    Settled,
    choose_rhythm,
    count_failure,
    end_failures,
    interval_of,
    is_answered,
    is_lenient,
    kept_ready,
    kept_until,
    poll_retry,
    query_of,
    record_available,
    record_error,
    retry_at,
    retry_delay,
    same_rhythm,
    unready_at,
)
from copyrator.bundles.features.rollback.fields import PinStatus
from copyrator.oci.errors import RegistryUnreachable

NOW = datetime(2026, 1, 1, 12, 0, 0, 500_000, tzinfo=UTC)
SPEC = BundleSpec(namespace="n", name="b", registry="r", repo="app", project_namespace="n")


def choose(
    query: str,
    interval: float,
    known: Sequence[Rhythm | None] = (),
    *,
    cluster: int = 0,
    announced: datetime | None = None,
) -> Rhythm:
    digest = hashlib.blake2b(query.encode(), key=str(cluster).encode()).hexdigest()
    return choose_rhythm(query, interval, digest, known, announced)


def spread(count: int, interval: float, *, cluster: int = 0) -> list[Rhythm]:
    found = list[Rhythm]()
    for i in range(count):
        found.append(choose(f"app{i}", interval, found, cluster=cluster))
    return found


def busiest(rhythms: Sequence[Rhythm]) -> int:
    """Polls in the second that has most of them."""
    return max(Counter(int(one.after(NOW).timestamp()) for one in rhythms).values())


def say(rhythm: Rhythm) -> datetime:
    """What a status says of the next poll: whole seconds."""
    return rhythm.after(NOW).replace(microsecond=0)


@pytest.mark.parametrize(
    ("count", "interval", "usual", "most"),
    [(1000, 60.0, 18, 18), (1000, 600.0, 3, 3), (1000, 3600.0, 2, 2), (150, 10.0, 16, 17)],
)
def test_the_busiest_second_has_little_more_than_the_mean(
    count: int, interval: float, usual: int, most: int
) -> None:
    found = [busiest(spread(count, interval, cluster=cluster)) for cluster in range(8)]

    assert statistics.median(found) <= usual
    assert max(found) <= most


def test_within_a_second_polls_are_spread_too() -> None:
    tenths = Counter(int(one.phase * 10) for one in spread(1000, 60.0))

    assert max(tenths.values()) <= 9
    assert len(tenths) > 450  # of 600


def test_clusters_do_not_ask_together() -> None:
    assert len({int(choose("app", 600.0, cluster=i).phase) for i in range(10)}) == 10


def test_the_same_query_has_the_same_rhythm() -> None:
    first = choose("app", 60.0)
    crowd = [Rhythm(60.0, first.phase, f"other{i}") for i in range(3)]

    assert choose("app", 60.0, crowd) != first
    assert choose("app", 60.0, [*crowd, None, first]) == first
    assert choose("app", 60.0, [first, *crowd], announced=NOW) == first


def test_bundles_that_share_a_query_count_once() -> None:
    first = choose("app", 60.0)
    same = [Rhythm(60.0, first.phase, "x") for _ in range(5)]
    seconds = set(range(60)) - {int(first.phase)}
    others = [Rhythm(60.0, second, f"{query}{second}") for second in seconds for query in "yz"]

    assert choose("app", 60.0, [*same, *others]) == first


def test_other_intervals_do_not_count() -> None:
    first = choose("app", 60.0)

    assert choose("app", 60.0, [Rhythm(90.0, first.phase, "x"), Rhythm(90.0, 1.0, "app")]) == first


@pytest.mark.parametrize("interval", [7.5, 60.0, 600.0, 86400.0])
def test_after_a_restart_each_is_asked_when_its_status_says(interval: float) -> None:
    before, after = spread(500, interval), list[Rhythm]()
    for one in random.Random(1).sample(before, len(before)):
        after.append(choose(one.query, interval, after, announced=say(one)))

    announced = {one.query: say(one) for one in before}
    assert all(one.includes(announced[one.query]) for one in after)
    assert busiest(after) == busiest(before)


@given(
    interval=st.floats(1.0, 10**9),
    seconds=st.floats(0, 10**8),
    cluster=st.integers(0, 1000),
    known=st.none() | st.floats(-(10**9), 10**9),
)
def test_the_next_moment_is_after_now_and_at_most_an_interval_away(
    interval: float, seconds: float, cluster: int, known: float | None
) -> None:
    now = NOW + timedelta(seconds=seconds)
    date = None if known is None else NOW + timedelta(seconds=known)

    rhythm = choose("app", interval, cluster=cluster, announced=date)

    first = rhythm.after(now)
    assert timedelta(0) < first - now <= timedelta(seconds=interval, milliseconds=1)
    assert rhythm.after(first) - first == pytest.approx(
        timedelta(seconds=interval), abs=timedelta(milliseconds=1)
    )
    assert rhythm.includes(first.replace(microsecond=0))


@pytest.mark.parametrize("phase", [10.0, 10.5, 10.999])
def test_a_status_means_the_time_in_the_second_that_it_says(phase: float) -> None:
    rhythm = Rhythm(60.0, phase)
    found = [at for at in range(130) if rhythm.includes(datetime.fromtimestamp(at, UTC))]
    assert found == [10, 70]


def test_the_checks_between_two_times_are_counted() -> None:
    rhythm = Rhythm(60.0, 7.0)
    first = rhythm.after(NOW)
    second = timedelta(seconds=1)
    assert rhythm.count(NOW, first - second) == 0
    assert rhythm.count(NOW, first) == 1
    assert rhythm.count(first, first + 59 * second) == 0
    assert rhythm.count(NOW, first + 180 * second) == 4
    assert rhythm.count(first, NOW) == 0


def test_all_ranges_of_a_repository_are_one_query_and_its_tags_others() -> None:
    def query(version: str) -> str:
        return query_of(replace(SPEC, version=version))

    assert query("1.0.*") == query(">=1 <2") == query("*")
    assert len({query("*"), query("1.0.0"), query("1.0.1")}) == 3


@pytest.mark.parametrize(
    ("gap", "same"),
    [
        (0, True),
        (600, True),
        (6000, True),
        (601, True),
        (599, True),
        (598, False),
        (602, False),
        (300, False),
        (-600, False),
        (5, False),
    ],
)
def test_knows_whether_an_old_date_still_tells_the_truth(gap: float, same: bool) -> None:
    assert same_rhythm(SPEC, NOW, NOW + timedelta(seconds=gap)) is same


@pytest.mark.parametrize(("interval", "seconds"), [(0.2, 1.0), (1.0, 1.0), (1.5, 1.5)])
def test_polls_are_a_second_apart_at_least(interval: float, seconds: float) -> None:
    assert interval_of(replace(SPEC, interval=interval)) == seconds


def test_a_bundle_that_has_to_wait_resumes_by_its_place_in_the_interval() -> None:
    waits = [
        (poll_retry(Rhythm(600.0, phase), 1, NOW, asked, first=15.0) - NOW).total_seconds()
        for phase, asked in [(0.0, 120.0), (300.0, 120.0), (300.0, 4000.0)]
    ]

    assert waits == [120, 150, 4300]


def test_failed_polls_are_retried_soon_then_at_the_regular_times() -> None:
    rhythm = Rhythm(86400.0, 3.0)
    waits = [(poll_retry(rhythm, n, NOW, first=15.0) - NOW).total_seconds() for n in range(1, 20)]

    assert waits[:3] == [15, 30, 60]
    assert waits == sorted(waits)
    assert waits[-1] == (rhythm.after(NOW) - NOW).total_seconds()


@pytest.mark.parametrize("asked", [1.0, 120.0, 3600.0])
def test_a_registry_that_asks_for_time_gets_it_and_no_stampede_afterwards(asked: float) -> None:
    times = [Rhythm(600.0, i * 6.0) for i in range(100)]

    waits = [(poll_retry(one, 1, NOW, asked, first=15.0) - NOW).total_seconds() for one in times]

    assert min(waits) >= asked
    assert max(waits) <= max(asked * 1.5, 15.0)
    assert asked < 15.0 or len(set(waits)) == len(times)


def test_deploys_are_retried_ever_more_slowly_up_to_a_quarter_of_an_hour() -> None:
    assert [retry_delay(30.0, n) for n in range(1, 8)] == [30, 60, 120, 240, 480, 900, 900]
    assert retry_delay(3600.0, 5) == 3600.0
    assert retry_delay(30.0, 10**6) == 900


@pytest.mark.parametrize(
    ("failures", "interval", "minutes"),
    [
        # With the third failure or after two intervals, whichever is later ...
        (3, 600.0, 20.0),
        (3, 60.0, 2.0),
        (3, 10.0, 1 / 3),
        (9, 60.0, 2.0),
        # ... at most 30 minutes.
        (3, 900.0, 30.0),
        (3, 901.0, 30.0),
        (3, 86400.0, 30.0),
        (1, 10.0, 30.0),
        (2, 600.0, 30.0),
        (2, 86400.0, 30.0),
    ],
)
def test_failed_polls_make_ready_false_after_some_time(
    failures: int, interval: float, minutes: float
) -> None:
    assert unready_at(NOW, failures, interval) == NOW + timedelta(minutes=minutes)


def test_a_status_may_say_the_end_of_all_times() -> None:
    """Anybody who may write it can; the Bundle is reconciled on."""
    assert Rhythm(3600.0, 17.0).after(LAST.replace(microsecond=0)) == LAST


# --- What a poll leaves in the status, and what a restart reads out of it


NOON = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
LATER = NOON + timedelta(minutes=5)
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
        (
            status(
                "DeployFailed",
                attempted=replace(
                    status().attempted, outcome=Outcome.FAILED, reason="DeployFailed"
                ),
            ),
            WISH,
            True,
        ),
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


def offer(name: str, *rejected: Rejected) -> Available:
    return Available(version="1.0.0", digest=f"sha256:{name}", rejected=rejected)


def test_what_was_passed_over_is_news_but_doesnt_make_the_offer_a_new_one() -> None:
    first = record_available(BundleStatus(), offer("a"), NOON, NOON)

    again = record_available(
        first, offer("a", Rejected(version="2.0.0", reason="OutOfRange")), NOON, LATER
    )

    assert again.available.time == first.available.time
    assert again.available.rejected == (Rejected(version="2.0.0", reason="OutOfRange"),)


def test_a_list_without_a_match_takes_the_offer_back_and_leaves_the_target() -> None:
    first = record_available(BundleStatus(), offer("a"), NOON, NOON)

    gone = record_available(first, Available(), LATER, LATER)

    assert (gone.ready, gone.next_poll_at) == (1, "2026-01-01T12:05:00Z")
    assert gone.available == Available(time="2026-01-01T12:05:00Z")
    assert gone.target == first.target
    assert (
        record_available(gone, Available(), LATER, LATER + timedelta(hours=1)).available
        == gone.available
    )


def test_the_same_offer_keeps_its_time() -> None:
    slot = NOON + timedelta(hours=1)
    first = record_available(BundleStatus(), offer("a"), slot, NOON)

    again = record_available(first, offer("a"), slot, NOON + timedelta(minutes=5))
    other = record_available(first, offer("b"), slot, NOON + timedelta(minutes=5))

    assert again == first
    assert other.available.time == "2026-01-01T12:05:00Z"
    assert first.target.to_dict() == {"digest": "sha256:a", "version": "1.0.0"}
    assert (first.ready, first.next_poll_at) == (1, "2026-01-01T13:00:00Z")
    assert record_available(BundleStatus(), Available(), slot, NOON).ready == 1


def test_the_same_error_keeps_its_time() -> None:
    first = record_error(BundleStatus(), "RateLimited", "slow down", NOON)

    assert record_error(first, "RateLimited", "slow down", NOON + timedelta(hours=1)) == first
    assert record_error(first, "RateLimited", "other", NOON).last_error == LastError(
        reason="RateLimited", message="other", time="2026-01-01T12:00:00Z"
    )


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [(Outcome.FAILED, NOON), (Outcome.INTERRUPTED, NOON), (Outcome.RUNNING, None), (None, None)],
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
        found = count_failure(found, NOON + timedelta(minutes=number))
        counted.append(found.failed_polls)
    since = "2026-01-01T12:00:00Z"
    assert counted == [FailedPolls(count=count, since=since) for count in (1, 2, 3, 3, 3)]
    at_once = count_failure(count_failure(status(), NOON), NOON)
    assert at_once.failed_polls == FailedPolls(count=2, since=since)


@pytest.mark.parametrize(
    "since", ["2026-01-01T12:00:01Z", "9999-01-01T00:00:00Z", "long ago", None]
)
def test_a_row_that_begins_later_than_now_begins_now(since: str | None) -> None:
    """As by a clock that was set back, or a forged status."""
    found = count_failure(status(failed_polls=FailedPolls(count=3, since=since)), NOON)
    assert found.failed_polls == FailedPolls(count=1, since="2026-01-01T12:00:00Z")


def test_a_success_ends_the_count_and_the_error_of_a_poll() -> None:
    failed = record_error(count_failure(status(), NOON), "RegistryUnreachable", "502", NOON)
    assert end_failures(failed) == status()
    assert record_available(failed, status().available, LATER, LATER).last_error == LastError()
    assert record_available(failed, Available(), LATER, LATER).failed_polls == FailedPolls()
    of_a_deploy = record_error(count_failure(status(), NOON), "DeployFailed", "boom", NOON)
    assert end_failures(of_a_deploy).last_error == of_a_deploy.last_error
    alone = record_error(status(), "RegistryUnreachable", "of a Job", NOON)
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
    once = count_failure(ready("True", "Deployed"), NOON)
    thrice = count_failure(count_failure(once, LATER), LATER)
    assert kept_until(once, spec) == NOON + timedelta(minutes=30)
    assert kept_until(thrice, spec) == NOON + timedelta(minutes=20)
    assert kept_until(ready("True", "Deployed"), spec) is None
    assert kept_until(count_failure(ready("False", "RateLimited"), NOON), spec) is None
    for since in ("long ago", "9999-12-31T23:59:59Z"):
        forged = replace(once, failed_polls=FailedPolls(count=3, since=since))
        assert kept_until(forged, spec) is None


# --- Each transition of a Bundle's polls from each state, and what is known beside the state


THEN, NEXT_NOON = (datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in (11, 12))
KNOWN, OTHER = ("5", "1.0.0"), ("6", "1.0.1")
POLL = Poll(100.0, THEN, request="a", confirmed=110.0)
UNCONFIRMED = replace(POLL, confirmed=None)
WANTED = DesiredVersion(1, "spec", None, "a", "")

State = Idle | Asked | Answered | Settled
Event = Callable[[Polling], object]

IDLE, SETTLED = Idle(), Settled(KNOWN)
ASKED, ANSWERED = Asked(POLL, KNOWN), Answered(POLL, KNOWN)
NEW = Poll(200.0, NEXT_NOON)

EVENTS: dict[str, Event] = {
    "begin": lambda one: one.begin(200.0, NEXT_NOON, "b"),
    "push": lambda one: one.push(200.0, 202.0, NEXT_NOON),
    "decide_again": lambda one: one.decide_again(200.0, NEXT_NOON),
    "answer": lambda one: one.answer(),
    "confirm": lambda one: one.confirm(300.0),
    "settle": lambda one: one.settle(OTHER),
    "unsettle": lambda one: one.unsettle(),
    "handle": lambda one: one.handle(WANTED, 300.0),
    "forget": lambda one: one.forget(),
}
AFTER: dict[str, tuple[State, State, State, State]] = {
    # from Idle, Settled, Asked, Answered
    "begin": (
        Asked(replace(NEW, request="b")),
        Asked(replace(NEW, request="b"), KNOWN),
        Asked(replace(NEW, request="b", confirmed=110.0), KNOWN),
        Asked(replace(NEW, request="b", confirmed=110.0), KNOWN),
    ),
    "push": (
        Asked(NEW),
        Asked(NEW, KNOWN),
        Asked(replace(NEW, request="a", confirmed=110.0), KNOWN),
        Asked(replace(NEW, request="a", confirmed=110.0), KNOWN),
    ),
    "decide_again": (Asked(NEW), Asked(NEW), Asked(POLL), Asked(POLL)),
    "answer": (IDLE, SETTLED, ANSWERED, ANSWERED),
    "confirm": (
        IDLE,
        SETTLED,
        Asked(replace(POLL, confirmed=300.0), KNOWN),
        Asked(replace(POLL, confirmed=300.0), KNOWN),
    ),
    "settle": (IDLE, SETTLED, ASKED, Answered(POLL, OTHER)),
    "unsettle": (IDLE, IDLE, Asked(POLL), Answered(POLL)),
    "handle": (IDLE, SETTLED, Asked(UNCONFIRMED, KNOWN), SETTLED),
    "forget": (IDLE, IDLE, IDLE, IDLE),
}


@pytest.mark.parametrize("column", range(4), ids=["Idle", "Settled", "Asked", "Answered"])
@pytest.mark.parametrize("name", EVENTS)
def test_each_event_leads_from_each_state_to_one(name: str, column: int) -> None:
    polling = Polling((IDLE, SETTLED, ASKED, ANSWERED)[column])
    EVENTS[name](polling)
    assert polling.state == AFTER[name][column]


def test_an_answer_for_which_there_is_something_to_do_settles_nothing() -> None:
    polling = Polling(Answered(POLL))
    polling.handle(WANTED, 300.0)
    assert polling.state == IDLE


@pytest.mark.parametrize(
    ("state", "handled", "token", "is_for"),
    [
        (IDLE, None, "", False),
        (SETTLED, WANTED, "a", False),
        (ASKED, None, "", True),
        (ANSWERED, None, "", True),
        (ASKED, None, "a", True),
        (ASKED, None, "b", False),
        (ASKED, WANTED, "", True),
        (ASKED, WANTED, "b", False),
        (Asked(NEW), None, "a", False),
        (Asked(NEW), WANTED, "a", True),
        (Asked(NEW), replace(WANTED, request=""), "a", False),
    ],
)
def test_a_request_waits_for_no_poll_but_that_which_began_before_it(
    state: State, handled: DesiredVersion | None, token: str, *, is_for: bool
) -> None:
    assert Polling(state, handled).is_for(token) == is_for


def test_a_push_is_polled_for_twice_unless_a_later_poll_accepts_no_older_answer() -> None:
    polling = Polling()
    polling.push(200.0, 202.0, NEXT_NOON)
    assert polling.again == 202.0
    polling.begin(201.9, NEXT_NOON)
    assert polling.poll == Poll(201.9, NEXT_NOON)
    assert polling.again == 202.0
    polling.begin(202.0, NEXT_NOON)
    assert polling.again is None
    polling.push(300.0, 302.0, NEXT_NOON)
    polling.forget()
    assert polling.again == 302.0
    polling.push(303.0, 305.0, NEXT_NOON)
    assert polling.again == 305.0


def test_only_a_poll_that_did_not_fail_counts_as_the_last_one() -> None:
    polling = Polling(ANSWERED, failures=Failures(since=100.0))
    polling.failures = polling.failures.including(RegistryUnreachable("gone"))
    polling.handle(WANTED, 300.0)
    assert polling.failures.since == 100.0
    polling.failures = Failures(unsigned=2, since=100.0)
    polling.handle(WANTED, 400.0)
    assert polling.failures == Failures(unsigned=2, since=400.0)


def test_an_error_is_counted_once_however_often_it_is_decided_on() -> None:
    first, second = RegistryUnreachable("gone"), RegistryUnreachable("gone")
    failures = Failures(unsigned=3, since=100.0).including(first)
    assert failures == Failures(1, first, unsigned=3, since=100.0)
    assert failures.including(first) is failures
    assert failures.including(second) == Failures(2, second, unsigned=3, since=100.0)


class Polls(RuleBasedStateMachine):
    """One Bundle: whatever happens while an answer is decided on isn't lost."""

    def __init__(self) -> None:
        super().__init__()
        self.polling = Polling()
        self.now = 0.0
        self.news: float | None = None
        """When something happened that no decision was begun after; None: nothing."""
        self.pushed: float | None = None
        """The last push that no decision was begun after."""
        self.deciding = False

    @rule(seconds=st.sampled_from([0.0, 0.5, 60.0]))
    def let_pass(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def push(self) -> None:
        self.polling.push(self.now, self.now + 2.0, NEXT_NOON)
        self.news = self.pushed = self.now

    @rule()
    def change_a_gate(self) -> None:
        self.polling.decide_again(self.now - 600.0, NEXT_NOON)
        self.news = self.now

    @precondition(lambda self: not self.deciding)
    @rule(older=st.sampled_from([0.0, 1.0, 300.0]))
    def reconcile(self, older: float) -> None:
        if self.polling.poll is None:
            self.polling.begin(self.now - older, NEXT_NOON)

    @precondition(lambda self: self.polling.poll is not None and not self.deciding)
    @rule()
    def answer(self) -> None:
        self.polling.answer()
        self.deciding, self.news, self.pushed = True, None, None

    @precondition(lambda self: self.deciding)
    @rule(settles=st.booleans(), fails=st.booleans())
    def end_the_decision(self, *, settles: bool, fails: bool) -> None:
        if settles:
            self.polling.settle(KNOWN)
        if not fails:
            self.polling.handle(WANTED, self.now)
            assert (self.polling.poll is None) == (self.news is None)
            assert not settles or self.polling.state == SETTLED or self.news is not None
        self.deciding = False

    @invariant()
    def what_happened_is_decided_on(self) -> None:
        if self.news is not None:
            assert isinstance(self.polling.state, Asked)

    @invariant()
    def no_answer_from_before_a_push_is_accepted(self) -> None:
        if self.pushed is not None:
            assert self.polling.poll is not None
            assert self.polling.poll.since >= self.pushed

    @invariant()
    def what_is_asked_after_a_change_is_decided_on_though_it_is_the_same(self) -> None:
        if self.news is not None and self.pushed is None:
            assert not self.polling.is_settled(KNOWN)


TestPolls = Polls.TestCase
