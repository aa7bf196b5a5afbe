"""One message a transition: by marks, by the time where there are too many, and in one queue."""

import asyncio
import json

import pytest
from tests.replacing import replace
from tests.steps import STEP_SECONDS, assert_quick

from copyrator.api.reasons.notices import About
from copyrator.notify.config import Entry, SecretRef, SubjectKind
from copyrator.notify.lane import Lane, NotifyTiming
from copyrator.notify.marks import (
    KEY,
    NOTIFICATION_MARKS,
    NOTIFICATION_MARKS_BYTES,
    ToldMarks,
)
from copyrator.notify.sending import SendResult
from copyrator.notify.transitions import ObjectIdentity, ObjectState, Transition, slot_of

START, LATER, NOW = "2026-11-27T12:00:00Z", "2026-11-27T13:00:00Z", "2026-11-27T14:00:00Z"
SHOP = ObjectIdentity(SubjectKind.BUNDLE, "prod", "shop", "uid-1")
CHAT = Entry("chat", SecretRef("chat", "url"), frozenset(About))


def failed(key="1", at=LATER, subject=SHOP):
    return Transition(subject, About.DEPLOY_FAILED, "failed", at, key)


def holding(*transitions, unknown=frozenset()):
    return ObjectState(
        transitions[0].subject if transitions else SHOP, transitions, frozenset(unknown)
    )


def begun(entry=CHAT):
    marks = ToldMarks()
    assert marks.follow([entry], START)
    return marks


def untold(marks, state, seen=None, entry=CHAT):
    return list(marks.untold(entry, state, seen))


def again(marks):
    """As another process reads them."""
    return ToldMarks.read(marks.to_data())


def test_what_is_new_is_told_once_by_any_process():
    marks, state = begun(), holding(failed())
    (one,) = untold(marks, state)
    marks.mark("chat", one, NOW)
    assert untold(marks, state) == []
    assert untold(again(marks), state) == []
    assert untold(again(marks), holding(failed("2"))) == [failed("2")]


def test_what_was_before_the_entry_is_told_only_by_the_process_that_saw_it_change():
    marks, state = begun(), holding(failed(at=START))
    assert untold(marks, state) == []
    assert untold(marks, state, seen={failed("0").id}) == [failed(at=START)]
    assert untold(marks, state, seen={failed(at=START).id}) == []


def test_the_end_of_a_fault_is_told_once_where_the_fault_was():
    marks, well = begun(), holding()
    assert untold(marks, well) == [], "the fault wasn't told"
    marks.mark("chat", failed(), NOW)
    assert untold(marks, holding(unknown={About.DEPLOY_FAILED})) == []
    (resolved,) = untold(again(marks), well)
    assert resolved.resolved
    marks.mark("chat", resolved, NOW)
    assert untold(again(marks), well) == []
    assert untold(marks, holding(failed())) == [failed()], "the same fault again"


def test_an_entry_is_told_only_what_it_asks_for():
    entry = replace(CHAT, about=frozenset({About.DEPLOYED}))
    assert untold(begun(entry), holding(failed()), entry=entry) == []


def test_a_wider_entry_is_not_told_about_the_past():
    narrow = replace(CHAT, about=frozenset({About.DEPLOYED}))
    marks = begun(narrow)
    assert marks.follow([CHAT], NOW)
    assert untold(marks, holding(failed(at=LATER))) == []
    assert not marks.follow([CHAT], NOW), "nothing to write"


def test_marks_of_a_removed_entry_go():
    marks = begun()
    assert marks.follow([], NOW)
    assert marks.entries == {}


def test_too_many_marks_are_dropped_oldest_first_and_count_as_told():
    marks = begun()
    subjects = [ObjectIdentity(SubjectKind.BUNDLE, "prod", f"s{i}", f"uid-{i}") for i in range(20)]
    for i, subject in enumerate(subjects):
        marks.mark("chat", failed(at=f"2026-11-27T13:00:{i:02}Z", subject=subject), NOW)
    marks.prune(5)
    marks = again(marks)
    assert set(marks.entries["chat"].slots) == {
        slot_of(subject, About.DEPLOY_FAILED) for subject in subjects[-5:]
    }
    for i, subject in enumerate(subjects):
        assert untold(marks, holding(failed(at=f"2026-11-27T13:00:{i:02}Z", subject=subject))) == []


def test_a_dropped_mark_of_an_older_fault_lets_nothing_be_told_again():
    marks = begun()
    first, second = failed("1", at="2026-11-27T13:00:09Z"), failed("2", at="2026-11-27T13:00:01Z")
    for one in (first, second):
        marks.mark("chat", one, NOW)
        marks.prune(0)
    assert untold(again(marks), holding(first)) == []


def test_a_forged_time_does_not_silence_what_comes_later():
    marks = begun()
    marks.mark("chat", failed(at="9999-01-01T00:00:00Z"), NOW)
    marks.prune(0)
    assert untold(marks, holding(failed("2", at="2026-11-27T15:00:00Z"))) != []


def test_results_are_written_when_they_change():
    marks = begun()
    assert marks.record_result("chat", "sent", NOW)
    assert not marks.record_result("chat", "sent", NOW)
    assert not marks.record_result("gone", "sent", NOW)


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {KEY: 1},
        {KEY: "x"},
        {KEY: "[]"},
        {KEY: '{"entries": {"a": 1}}'},
        {KEY: '{"x":' + "[" * 100_000},
    ],
)
def test_what_is_not_ours_is_refused(data):
    with pytest.raises(ValueError):  # noqa: PT011 - any of msgspec's is one
        ToldMarks.read(data)


def test_a_forged_future_is_told_once_though_its_mark_was_dropped():
    marks, forged = begun(), failed(at="2099-01-01T00:00:00Z")
    assert untold(marks, holding(forged)) == [forged]
    marks.mark("chat", forged, NOW)
    marks.prune(0)
    assert untold(marks, holding(forged), seen=[forged.id]) == []
    assert untold(marks, holding(failed("2", at=START)), seen=[forged.id])


def test_marks_with_a_time_to_come_silence_nothing():
    marks = begun()
    marks.entries["chat"].since = "9999"
    marks.follow([CHAT], NOW)
    assert untold(marks, holding(failed(at="2026-11-27T14:00:01Z")))


def test_a_fault_that_lasts_names_its_object_until_its_end_is_told():
    marks = begun()
    marks.mark("chat", failed(), NOW)
    assert again(marks).open_subjects == {SHOP}
    gone = ObjectState(SHOP, is_deleted=True)
    (resolved,) = untold(again(marks), gone)
    assert (resolved.resolved, resolved.what) == (True, "it was deleted")
    marks.mark("chat", resolved, NOW)
    assert again(marks).open_subjects == set()
    assert untold(again(marks), gone) == []


def test_marks_of_a_former_version_are_read():
    marks = begun()
    marks.mark("chat", failed(), NOW)
    ((slot, mark),) = marks.entries["chat"].slots.items()
    former = {"since": START, "filter": CHAT.filter_id, "slots": {slot: [mark.id, mark.at, "!"]}}
    found = ToldMarks.read({KEY: json.dumps({"entries": {"chat": former}})})
    assert found.open_subjects == set()
    assert untold(found, holding(failed())) == []
    (resolved,) = untold(found, holding())
    assert resolved.resolved


@pytest.mark.parametrize(("place", "name", "named"), [(63, 253, 1_000), (15, 25, 4_500)])
def test_marks_with_the_longest_names_fit_into_a_config_map(place, name, named):
    """Its values together have at most 1 MiB; Kubernetes counts bytes."""
    entries = [replace(CHAT, name=f"{i:063}") for i in range(50)]
    marks = ToldMarks()
    marks.follow(entries, START)
    for one in marks.entries.values():
        one.tested, one.test_result = "\x01" * 256, "\x01" * 200
    for i in range(NOTIFICATION_MARKS):
        uid = f"00000000-0000-0000-0000-{i:012}"
        subject = ObjectIdentity(SubjectKind.RULE, "n" * place, f"{i:0{name}}", uid)
        at = f"2026-11-27T{i // 3600:02}:{i // 60 % 60:02}:{i % 60:02}Z"
        marks.mark(entries[i % 50].name, failed(at=at, subject=subject), NOW)
        marks.record_result(entries[i % 50].name, "\x01" * 1000, NOW)
    (written,) = marks.to_data().values()
    assert len(written.encode()) <= NOTIFICATION_MARKS_BYTES < 2**20
    found = ToldMarks.read({KEY: written})
    assert sum(len(one.slots) for one in found.entries.values()) == NOTIFICATION_MARKS
    assert len(found.open_subjects) >= named
    assert subject in found.open_subjects, "those of the oldest faults are left out"


@pytest.mark.parametrize(
    "subject",
    [
        ["Bundle", "prod", "shop"],
        ["Secret", "prod", "shop", "uid-1"],
        ["Bundle", "../..", "shop", "uid-1"],
        ["Bundle", "prod", "x\n@channel", "uid-1"],
        ["Bundle", "prod", "shop", "x" * 65],
    ],
)
def test_a_mark_that_names_no_object_is_not_used_as_a_name(subject):
    slots = {"0" * 12: ["1" * 12, START, "!", subject]}
    one = {"since": START, "filter": CHAT.filter_id, "slots": slots}
    assert ToldMarks.read({KEY: json.dumps({"entries": {"chat": one}})}).open_subjects == set()


def test_a_forged_time_is_stored_as_no_time():
    marks = begun()
    marks.mark("chat", failed(at="\x01" * 40), NOW)
    ((_, mark),) = marks.entries["chat"].slots.items()
    assert mark.at == NOW


def test_forged_marks_of_very_many_entries_are_dropped_quickly():
    mark = ["", "", "."]
    entries = {f"{i}": {"since": "", "filter": ""} for i in range(15_000)}
    for i in range(2_000):
        entries[f"{i}"]["slots"] = {f"{j}": mark for j in range(5)}
    data = {KEY: json.dumps({"entries": entries}, separators=(",", ":"))}
    copies = [ToldMarks.read(data) for _ in range(4)]
    assert_quick(lambda: copies.pop().prune(), STEP_SECONDS)
    (last, *_) = copies
    last.prune()
    assert sum(len(one.slots) for one in last.entries.values()) <= NOTIFICATION_MARKS


async def test_what_is_found_again_before_its_mark_is_set_is_told_once():
    """As when the ConfigMap changes meanwhile, and all objects are looked at."""
    sent, told = [], asyncio.Event()

    async def send(_entry, transitions, _brief):
        sent.append([one.key for one in transitions])
        return SendResult()

    async def mark(_entry, transitions):
        if len(sent) == 1:
            lane.put(replace(transitions[0]))
            lane.put(failed("2", subject=replace(SHOP, uid="uid-2")))
        elif len(sent) == 2:
            lane.put(failed("3", subject=replace(SHOP, uid="uid-2")))
        else:
            told.set()

    lane = Lane(
        replace(CHAT, min_interval=0.0),
        send=send,
        told=mark,
        on_failed=lambda *_: None,
        on_dropped=lambda *_: None,
        timing=NotifyTiming(settle=0),
    )
    lane.put(failed("1"))
    async with asyncio.timeout(30):
        await told.wait()
    await lane.stop()

    assert sent == [["1"], ["2"], ["3"]]
