"""What freezes, as annotations and the ConfigMap say it: whatever can't be read freezes too."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.bundles.features.freeze.fields import (
    FREEZE_BYTES,
    MAX_REASON,
    MAX_WHO,
    Freeze,
    annotation_of,
    data_of,
    denied,
    in_force,
    read_annotation,
    read_config_map,
    sentence,
)

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
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
