"""The gate of freezes, and what becomes of an attempt that a freeze ended."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.bundles import bundle, parsed

from copyrator.api.bundle_spec import Retry
from copyrator.api.bundle_status import Attempted, BundleStatus, GateStatus, Outcome
from copyrator.bundles.engine import deciding as state
from copyrator.bundles.engine.gate import (
    PASSED,
    Candidate,
    Facts,
    Findings,
    Gates,
    Occasion,
    Passed,
    Refused,
    Waiting,
)
from copyrator.bundles.features.freeze.fields import (
    FREEZE_BYTES,
    MAX_REASON,
    MAX_WHO,
    Freeze,
    FreezeFindings,
    annotation_of,
    data_of,
    denied,
    in_force,
    read_annotation,
    read_config_map,
    sentence,
)
from copyrator.bundles.features.freeze.gates import GATE
from copyrator.bundles.jobs.outcome import ending_of, read_job

EXAMPLE = Path(__file__).parents[5] / "examples" / "freeze.yaml"
NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
SPEC = parsed(bundle(namespace="team"))
ALL = Freeze(reason="all")
TEAM = Freeze(namespace="team", reason="team")
GARBAGE = read_annotation("team", "{")


def judge(*freezes: Freeze, now: datetime = NOON) -> Passed | Waiting | Refused:
    facts = Facts(
        BundleStatus(), Occasion.NEW_DIGEST, findings=Findings((FreezeFindings(freezes),))
    )
    return GATE.judge(SPEC, Candidate("1", "sha256:0"), facts, now)


@pytest.mark.parametrize(
    ("freezes", "reason", "until"),
    [
        ((ALL,), "Frozen", None),
        ((replace(TEAM, until=NOON + HOUR),), "Frozen", NOON + HOUR),
        ((replace(ALL, until=NOON + HOUR), replace(TEAM, until=NOON)), "Frozen", NOON + HOUR),
        (
            (replace(ALL, until=NOON + HOUR), replace(TEAM, until=NOON + 2 * HOUR)),
            "Frozen",
            NOON + 2 * HOUR,
        ),
        ((replace(ALL, until=NOON + HOUR), TEAM), "Frozen", None),
        ((GARBAGE,), "FreezeUnreadable", None),
        ((replace(ALL, until=NOON + HOUR), GARBAGE), "FreezeUnreadable", None),
    ],
)
def test_it_waits_for_the_last_freeze(
    freezes: tuple[Freeze, ...], reason: str, until: datetime | None
) -> None:
    found = judge(*freezes)
    assert isinstance(found, Waiting)
    assert (found.reason, found.until) == (reason, until)


def test_it_passes_where_nothing_is_frozen_any_more() -> None:
    assert judge() is PASSED
    assert judge(replace(ALL, until=NOON)) is PASSED
    assert judge(replace(ALL, until=NOON), now=NOON - timedelta(seconds=1)) is not PASSED


def test_its_message_names_each_freeze() -> None:
    found = judge(ALL, TEAM)
    assert isinstance(found, Waiting)
    assert found.message == "all namespaces are frozen: all; namespace team is frozen: team"


def test_it_is_asked_about_every_deploy() -> None:
    assert GATE.occasions == frozenset(Occasion)


def test_a_bundle_without_other_gates_has_this_one_only_while_it_is_frozen() -> None:
    frozen = True
    other = replace(GATE, name="other", concerns=lambda _: False, is_permanent=True)
    gates = Gates(moment=(other, replace(GATE, concerns=lambda _: frozen)))
    waits = GateStatus(name="freeze", state="Waiting"), GateStatus(name="window", state="Waiting")
    assert not gates.any_of(SPEC)
    assert gates.kept(SPEC, waits) == waits[:1]
    frozen = False
    assert gates.kept(SPEC, waits) == ()


def ended(reason: str | None) -> Attempted:
    """The attempt that was running when its Job was ended for this reason."""
    annotations = {"operator.werf.dev/given-up": reason} if reason else {}
    condition = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}
    job = read_job(
        {
            "metadata": {"labels": {"operator.werf.dev/job": "deploy"}, "annotations": annotations},
            "status": {"conditions": [condition]},
        }
    )
    assert job is not None
    ending = ending_of(job, [])
    running = Attempted(
        version="1", attempt=1, outcome=Outcome.RUNNING, failures=2, interruptions=3
    )
    status = BundleStatus(attempted=running)
    return state.finish(status, ending, state.Evidence(), Retry(), NOON).attempted


def test_an_attempt_that_a_freeze_ended_does_not_count_and_is_due_at_once() -> None:
    found = ended("Frozen")
    assert (found.outcome, found.reason) == ("Interrupted", "Frozen")
    assert (found.failures, found.interruptions) == (2, 3)
    assert found.next_retry_at == "2026-11-25T12:00:00Z"
    assert ended("true").interruptions == 4
    assert ended("PlanChanged").reason == "PlanChanged"


ONE = Freeze(namespace="team", reason="no", until=NOON, who="ann", since=NOON - timedelta(hours=1))


def config_map(**data: str) -> dict[str, Any]:
    return {"metadata": {"namespace": "home", "name": "copyrator-freeze"}, "data": data}


def test_what_the_command_writes_is_read_as_it_was_meant() -> None:
    assert read_annotation("team", annotation_of(ONE)) == ONE
    of_all = Freeze(reason="no", until=NOON, who="ann", since=ONE.since)
    assert read_config_map(config_map(**data_of(of_all))) == of_all
    assert data_of(Freeze(reason="no")) == {"reason": "no"}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("release on Monday", "release on Monday"),
        ("", ""),
        ("false", "false"),
        (" two\nlines\x1b[31m\x00 ", "two lines [31m"),
        ('"{}"', '"{}"'),
        ("[1]", "[1]"),
        ("x" * (MAX_REASON + 1), "x" * (MAX_REASON - 1) + "…"),
        ("x" * MAX_REASON, "x" * MAX_REASON),
        ("x" * FREEZE_BYTES, "x" * (MAX_REASON - 1) + "…"),
        ("x" + " " * (2 * MAX_REASON - 1) + "y", "x"),
    ],
)
def test_plain_text_freezes_and_is_the_reason(value: str, reason: str) -> None:
    assert read_annotation("team", value) == Freeze(namespace="team", reason=reason)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("{", "truncated"),
        ('{"reason": 1}', "$.reason"),
        ('{"untill": "x"}', "untill"),
        ('{"until": "tomorrow"}', "until: 'tomorrow' isn't an RFC 3339 time"),
        (' {"until": []}', "$.until"),
        ('{"until": "%s"}' % ("x" * 41), f"until: '{'x' * 39}…' isn't an RFC 3339 time; correct"),
        ('{"until": "%s"}' % ("x" * 40), f"until: '{'x' * 40}' isn't an RFC 3339 time; correct"),
        ("{" * 4000, "JSON"),
        ('{"reason":' * 400, "$.reason"),
        ("x" * (FREEZE_BYTES + 1), "longer than 4096 bytes"),
        ("é" * (FREEZE_BYTES // 2 + 1), "longer than 4096 bytes"),
        ('{"' + "u" * 3000 + '": 1}', "…"),
    ],
)
def test_garbage_freezes_and_the_fault_names_the_remedy(value: str, why: str) -> None:
    found = read_annotation("team", value)
    assert found.fault.startswith("its annotation operator.werf.dev/freeze can't be read: ")
    assert why in found.fault
    assert found.fault.endswith("; correct it, or remove it: copyrator thaw -n team")
    assert len(found.fault) < 400
    assert (found.namespace, found.until, found.reason) == ("team", None, "")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({"until": "later"}, "until: 'later'"),
        ({"unti": NOON.isoformat()}, "unti"),
        ({"reason": "x" * FREEZE_BYTES}, "longer than"),
    ],
)
def test_a_config_map_that_is_not_understood_freezes_all(data: dict[str, str], why: str) -> None:
    found = read_config_map(config_map(**data))
    assert found.fault.startswith("ConfigMap home/copyrator-freeze can't be read: ")
    assert why in found.fault
    assert found.fault.endswith("copyrator thaw --all")


def test_the_keys_of_a_config_map_count_too() -> None:
    longest = "x" * (FREEZE_BYTES - len("reason"))
    assert read_config_map(config_map(reason=longest)).fault == ""
    assert "longer than 4096 bytes" in read_config_map(config_map(reason=longest + "x")).fault


def test_the_example_is_read() -> None:
    namespace, found = yaml.safe_load_all(EXAMPLE.read_text())
    value = namespace["metadata"]["annotations"]["operator.werf.dev/freeze"]
    assert read_annotation("apps", value).until == datetime(2036, 12, 31, 18, tzinfo=UTC)
    assert read_config_map(found) == Freeze(reason="change freeze until the new year")


def test_an_empty_config_map_freezes_and_binary_data_is_not_understood() -> None:
    assert read_config_map({"metadata": {}}) == Freeze()
    assert read_config_map({**config_map(), "binaryData": {"x": "eA=="}}).fault


def test_a_freeze_ends_when_its_end_has_come() -> None:
    later = Freeze(until=NOON + timedelta(seconds=1))
    assert in_force((ONE, later, Freeze()), NOON) == (later, Freeze())
    assert in_force((ONE,), NOON - timedelta(seconds=1)) == (ONE,)


def test_the_sentence_says_what_by_whom_since_when_until_when_and_why() -> None:
    assert sentence(ONE) == (
        "namespace team is frozen by ann since 2026-11-25T11:00:00Z until 2026-11-25T12:00:00Z: no"
    )
    assert sentence(Freeze()) == "all namespaces are frozen: no reason is given"
    assert sentence(denied("no way")) == (
        "all namespaces are frozen because the operator may not read what is frozen: no way"
    )


@given(st.text(max_size=5000))
def test_any_text_freezes_in_one_line(value: str) -> None:
    found = read_annotation("team", value)
    assert found.namespace == "team"
    assert sentence(found).isprintable()
    assert len(sentence(found)) < MAX_REASON + 400


@given(st.dictionaries(st.sampled_from(["reason", "until", "who", "since", "x"]), st.text()))
def test_any_json_freezes_in_one_line(fields: dict[str, str]) -> None:
    for found in (
        read_annotation("team", json.dumps(fields)),
        read_config_map(config_map(**fields)),
    ):
        assert sentence(found).isprintable()
        assert len(found.who) <= MAX_WHO
