"""Others who keep changing a copy back."""

import pytest
from tests.clock import Clock

from copyrator.api import names
from copyrator.api.keys import CopyKey
from copyrator.api.rule_spec import Transform
from copyrator.copies.seal.sealing import Sealer
from copyrator.copies.targets import fights as module
from copyrator.copies.targets.content import copied_content, rendered_content
from copyrator.copies.targets.fights import CopyDriftTracker, FightTracker, describe_change
from copyrator.copies.targets.kinds import LONGEST_STEP, ROUND_RATE, Round
from copyrator.copies.timing import DEFAULT_TIMING

# --- When a copy that others change back is written again, by a clock of the test's own -----------


KEY = CopyKey("configmaps", "team", "app")
OTHER = CopyKey("configmaps", "other", "app")
SEALER = Sealer(b"0" * 32)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def fights(clock):
    return FightTracker(clock)


def fought(fights, clock, seconds, *, requests=1, react=0.0):
    """Times of the writes of a copy that others change `react` seconds after each."""
    begin, times = clock.now, []
    while clock.now - begin < seconds:
        times += [clock.now - begin] * requests
        fights.count(KEY, requests, foreign=True)
        clock.now += react
        fights.change(KEY)
        clock.now += fights.wait(KEY)
    return times


def test_the_third_write_in_a_minute_is_followed_by_a_pause_of_a_second_that_doubles(fights, clock):
    times = fought(fights, clock, 1_200)
    assert times == [0, 0, 0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 811, 1111]


@pytest.mark.parametrize("react", [0.0, 0.01, 1.0, 5.0, 19.0])
@pytest.mark.parametrize("requests", [1, 2, 3])
def test_never_more_than_twelve_requests_in_ten_minutes(fights, clock, react, requests):
    times = fought(fights, clock, 3_600, requests=requests, react=react)
    for begin in times:
        assert sum(begin <= when < begin + 600 for when in times) <= 12


def test_the_write_that_created_a_copy_is_one_of_the_twelve(fights, clock):
    begin, times = clock.now, [0.0]
    clock.now += 2
    while clock.now < begin + 1_200:
        times.append(clock.now - begin)
        fights.count(KEY, 1, foreign=True, age=clock.now - begin)
        fights.change(KEY)
        clock.now += fights.wait(KEY)
    assert times == [0, 2, 2, 2, 3, 5, 9, 17, 33, 65, 129, 257, 600, 900]


def test_one_that_was_created_long_ago_is_not(fights, clock):
    for _ in range(12):
        fights.count(KEY, 1, foreign=True, age=3_600)
        clock.now += fights.wait(KEY)
    assert clock.now == 1_000 + 811


def test_a_copy_that_is_changed_seldom_is_written_at_once(fights, clock):
    for _ in range(50):
        assert fights.wait(KEY) == 0
        fights.count(KEY, 1, foreign=True)
        clock.now += 30.5
    assert fights.get(KEY) is None


def test_writes_of_our_own_never_begin_a_fight(fights, clock):
    for _ in range(20):
        fights.count(KEY, 1, foreign=False)
    assert fights.get(KEY) is None


def test_a_change_of_the_source_in_a_fight_counts_and_is_followed_by_a_pause(fights, clock):
    fought(fights, clock, 1)
    fights.count(KEY, 1, foreign=False)
    assert fights.wait(KEY) == 2


def test_ten_minutes_without_a_change_by_others_end_it_and_it_begins_anew(fights, clock):
    fought(fights, clock, 60)
    fights.count(KEY, 1, foreign=True)
    fights.change(KEY)
    clock.now += 599
    assert fights.remaining(KEY) == 1
    clock.now += 1
    assert fights.remaining(KEY) is None
    assert fights.get(KEY) is None
    assert fought(fights, clock, 5) == [0, 0, 0, 1, 3]


def test_a_deletion_by_others_keeps_the_fight(fights, clock):
    fought(fights, clock, 60)
    clock.now += 500
    fights.lose(KEY)
    assert fights.remaining(KEY) == 600


def test_our_own_writes_neither_prolong_a_fight_nor_take_back_its_report(fights, clock):
    fought(fights, clock, 60)
    fights.count(KEY, 1, foreign=True)
    clock.now += 300
    fights.count(KEY, 1, foreign=False)
    assert len(fights) == 1
    clock.now += 300
    assert fights.remaining(KEY) is None


def test_a_fight_ends_ten_minutes_after_the_last_change_not_after_the_write(fights, clock):
    fought(fights, clock, 60)
    fights.change(KEY)
    clock.now += 5
    fights.count(KEY, 1, foreign=True)
    assert fights.remaining(KEY) == 595


def test_the_second_write_is_repeated_and_the_third_is_the_next_of_a_fight(fights, clock):
    found = []
    for _ in range(3):
        found.append((fights.is_repeated(KEY), fights.is_next(KEY)))
        fights.count(KEY, 1, foreign=True)
    assert found == [(False, False), (True, False), (True, True)]
    clock.now += 300
    assert fights.is_repeated(KEY)
    assert fights.is_next(KEY)
    assert not fights.is_repeated(OTHER)


def test_the_fight_of_one_copy_delays_no_other(fights, clock):
    fought(fights, clock, 300)
    assert fights.wait(OTHER) == 0


def test_an_attempt_that_isnt_complete_counts_only_its_requests(fights, clock):
    for _ in range(2):
        fights.count(KEY, 1, foreign=True, complete=False)
        fights.count(KEY, 1, foreign=True)
    fights.count(KEY, 1, foreign=True, complete=False)
    assert fights.get(KEY) is None
    fights.count(KEY, 1, foreign=True)
    assert fights.wait(KEY) == 8


def test_a_copy_that_isnt_wanted_any_more_begins_anew(fights):
    for _ in range(2):
        fights.count(KEY, 1, foreign=True)
    fights.end(KEY)
    fights.count(KEY, 1, foreign=True)
    assert fights.get(KEY) is None


def test_three_changes_are_reported_when_a_fourth_follows(fights):
    for _ in range(3):
        fights.change(KEY)
        fights.count(KEY, 1, foreign=True)
    assert (len(fights), fights.wait(KEY)) == (0, 1)
    fights.change(KEY)
    assert len(fights) == 1


def test_a_copy_that_others_deleted_is_lost_until_it_is_created(fights, clock):
    assert not fights.is_lost(KEY)
    fights.lose(KEY)
    fights.count(KEY, 1, foreign=True, complete=False)
    assert fights.is_lost(KEY)
    fights.count(KEY, 1, foreign=True)
    assert not fights.is_lost(KEY)


def test_nothing_is_kept_of_what_is_over(fights, clock):
    fought(fights, clock, 10)
    fights.count(OTHER, 1, foreign=True)
    fights.lose(OTHER)
    clock.now += 60
    fights.forget_old()
    assert not fights._recent
    assert not fights._lost
    assert fights._fights.keys() == {KEY}
    clock.now += 600
    fights.forget_old()
    assert not fights._fights


def test_of_too_many_deleted_copies_the_one_that_was_deleted_longest_ago_is_forgotten(
    fights, monkeypatch
):
    monkeypatch.setattr(module, "FIGHTS", 2)
    keys = [CopyKey("configmaps", name, "app") for name in ("a", "b", "a", "c")]
    for key in keys:
        fights.lose(key)
    assert [key.namespace for key in keys[1:] if fights.is_lost(key)] == ["a", "c"]


def test_so_many_fights_are_kept_and_those_that_are_written_last(fights, clock, monkeypatch):
    monkeypatch.setattr(module, "FIGHTS", 3)
    keys = [CopyKey("configmaps", f"team-{number}", "app") for number in range(5)]
    for key in keys:
        for _ in range(3):
            fights.count(key, 1, foreign=True)
        fights.lose(key)
        fights.count(OTHER, 1, foreign=True)
    assert [key for key in keys if fights.get(key)] == keys[3:]
    assert len(fights._fights) == len(fights._lost) == 3


# --- what others change -----------------------------------------------------------------------

MARKS = {names.ANN_RULE: {}, names.ANN_SOURCE: {}, names.ANN_HASH: {}}


def managed(manager, time, **fields):
    return {
        "manager": manager,
        "operation": "Update",
        "time": f"2026-01-01T00:00:{time:02}Z",
        "fieldsV1": fields,
    }


def ours(**fields):
    marks = {f"f:{key}": {} for key in MARKS}
    metadata = {
        "f:annotations": marks,
        "f:labels": {f"f:{names.LABEL_MANAGED_BY}": {}, "f:app": {}},
    }
    return managed(names.FIELD_MANAGER, 1, **{"f:metadata": metadata, **fields})


def configmap():
    metadata = {"namespace": "a", "name": "b", "labels": {"app": "x"}}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": "1"}}
    return copied_content(body, Transform(), rule="a/b", sealer=SEALER)


def gizmo():
    body = {"apiVersion": "example.com/v1", "kind": "Gizmo", "metadata": {}}
    body["spec"] = {"size": "1Gi", "parts": [1]}
    return rendered_content(body, Transform(), rule="a/b", sealer=SEALER)


DATA = {"f:data": {"f:key": {}}}
INJECTED = managed("injector", 5, **{"f:data": {"f:ca-bundle.crt": {}}})
STATUS = managed("gizmos", 9, **{"f:status": {"f:ready": {}}}) | {"subresource": "status"}

CHANGES = [
    (
        "a key is added",
        configmap(),
        [ours(**DATA), INJECTED],
        r"injector changes data.ca-bundle\.crt",
    ),
    (
        "a value is changed",
        configmap(),
        [ours(), managed("kubectl-edit", 5, **DATA)],
        "kubectl-edit changes data.key",
    ),
    (
        "several fields",
        configmap(),
        [ours(), managed("tool", 5, **{"f:data": {"f:key": {}, "f:more": {}}})],
        "tool changes data.key and 1 more",
    ),
    (
        "the last one of two",
        configmap(),
        [INJECTED, managed("argocd", 7, **DATA), ours()],
        "argocd changes data.key",
    ),
    (
        "a label",
        configmap(),
        [ours(**DATA), managed("tool", 5, **{"f:metadata": {"f:labels": {"f:tool": {}}}})],
        "another client with the field manager copyrator changes it",
    ),
    ("a key is removed", configmap(), [ours()], "another client removes data.key"),
    (
        "a key is removed by one who has other fields",
        configmap(),
        [ours(), managed("tool", 5, **{"f:metadata": {"f:labels": {"f:tool": {}}}})],
        "another client (the last one is the field manager tool) removes data.key",
    ),
    (
        "a field is normalised",
        gizmo(),
        [ours(), managed("gizmos", 5, **{"f:spec": {"f:size": {}, "f:parts": {}}}), STATUS],
        "gizmos changes spec.parts and 1 more",
    ),
    ("under our own name", configmap(), [ours(**DATA)], "the field manager copyrator changes it"),
    (
        "items that others add to a list don't count",
        gizmo(),
        [ours(), managed("tool", 5, **{"f:spec": {"f:parts": {'k:{"name":"a"}': {}, "v:1": {}}}})],
        "another client with the field manager copyrator changes it",
    ),
    (
        "what a subresource wrote doesn't count",
        gizmo(),
        [
            ours(),
            managed("scaler", 9, **{"f:spec": {"f:size": {}}}) | {"subresource": "scale"},
            managed("gizmos", 5, **{"f:spec": {"f:two words": {}}}),
        ],
        "gizmos changes spec['two words']",
    ),
    ("no managedFields at all", configmap(), None, "another client removes data.key"),
]


@pytest.mark.parametrize(
    ("content", "entries", "expected"),
    [row[1:] for row in CHANGES],
    ids=[row[0] for row in CHANGES],
)
def test_the_field_and_the_field_manager_are_named(content, entries, expected):
    assert describe_change(content, {"managedFields": entries}).endswith(expected)


def test_a_deleted_copy_has_no_field():
    assert describe_change(configmap(), None) == "another client deletes it"


def test_long_names_are_cut_and_have_no_control_characters():
    field = {"f:data": {"f:\x1b[2J" + "k" * 250: {}}}
    text = describe_change(configmap(), {"managedFields": [ours(), managed("m" * 900, 5, **field)]})
    assert len(text) < 3 * module.SHOWN
    assert text.isprintable()


@pytest.mark.parametrize(
    ("manager", "shown"),
    [("m" * 200, "m" * 200), ("m" * 201, "m" * 199 + "…"), ("a\x1b[2J\nb", "a?[2J?b")],
)
def test_a_field_managers_name_is_shown_on_one_line(manager, shown):
    text = describe_change(configmap(), {"managedFields": [ours(), managed(manager, 5, **DATA)]})
    assert text == f"the field manager {shown} changes data.key"


# --- When a copy is read whole, by a clock of the test's own --------------------------------------


DRIFTING = CopyKey("secrets", "team", "app")


def test_a_copy_is_read_at_once_and_then_not_before_ten_seconds_are_over(clock):
    drift = CopyDriftTracker(clock)
    assert drift.wait(DRIFTING) is None
    drift.suspect(DRIFTING, "5")
    assert drift.wait(DRIFTING) == 0
    drift.reading(DRIFTING)
    assert drift.wait(DRIFTING) is None
    clock.now += 4
    drift.suspect(DRIFTING, "6")
    assert drift.wait(DRIFTING) == DEFAULT_TIMING.reread - 4
    clock.now += 6
    assert drift.wait(DRIFTING) == 0


@pytest.mark.parametrize(
    ("seen", "written", "suspected"),
    [
        ("5", "5", False),
        ("5", "6", False),
        ("10", "9", True),
        ("a", "b", False),
        ("5", "b", False),
        ("a", "6", False),
        (None, "1", False),
    ],
)
def test_what_came_before_our_own_write_needs_no_look(clock, seen, written, suspected):
    drift = CopyDriftTracker(clock)
    drift.suspect(DRIFTING, seen)
    drift.wrote(DRIFTING, written)
    assert (drift.wait(DRIFTING) is not None) == suspected


def walked(clock, copies, seconds, step=10.0):
    """What a round reads, and the most at one time."""
    round_ = Round(clock, lambda: copies, chance=lambda: 0.5)
    clock.now += DEFAULT_TIMING.round_rest
    found, most = [], 0
    for _ in range(int(seconds / step)):
        clock.now += step
        due = round_.due()
        most = max(most, len(due))
        found += due
    return found, most


def test_a_copy_that_was_never_read_is_read_at_once_also_when_the_clock_has_just_begun(clock):
    drift = CopyDriftTracker(clock)
    clock.now = 0.0
    drift.wrote(DRIFTING, "4")
    drift.suspect(DRIFTING, "5")
    assert drift.wait(DRIFTING) == 0


def test_every_copy_is_read_once_in_a_day_and_evenly(clock):
    names = [(f"team-{number}", "app") for number in range(1_000)]
    copies = {"secrets": names[:600], "configmaps": names[600:], "roles": []}
    found, most = walked(clock, copies, DEFAULT_TIMING.round)
    assert most == 1
    assert 990 <= len(found) <= 1_000
    assert len(set(found)) == len(found)


def test_nothing_is_read_in_the_first_hour_nor_in_a_burst_after_a_pause(clock):
    copies = {"secrets": [(f"team-{number}", "app") for number in range(100_000)]}
    round_ = Round(clock, lambda: copies)
    clock.now += DEFAULT_TIMING.round_rest
    assert round_.due() == []
    clock.now += DEFAULT_TIMING.round
    assert len(round_.due()) <= ROUND_RATE * LONGEST_STEP


def test_what_was_read_long_ago_is_forgotten(clock):
    drift = CopyDriftTracker(clock)
    drift.reading(DRIFTING)
    drift.suspect(DRIFTING, "5")
    clock.now += DEFAULT_TIMING.reread - 1
    drift.forget_old()
    assert drift.wait(DRIFTING) == 1
    clock.now += 2
    drift.forget_old()
    assert not drift._read
