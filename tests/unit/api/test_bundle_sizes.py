"""Bundles of any size that can be stored: reading one is short, and says what is too much."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.long import LONG
from tests.steps import STEP_SECONDS, assert_quick

from copyrator.api.bundle_spec import (
    BUNDLE_ENV_BYTES,
    BUNDLE_ENV_VALUE,
    BUNDLE_JOB_FIELD,
    BundleSpec,
)
from copyrator.api.schema import InvalidSpec
from copyrator.bundles.engine.bundle import BundleEntry, read_entry
from copyrator.bundles.fields import (
    BUNDLE_STATUS_BYTES,
    BUNDLE_STATUS_DEPTH,
    BUNDLE_STATUS_FIELDS,
    BUNDLE_STATUS_ITEMS,
    BUNDLE_STATUS_TEXT,
    BUNDLE_STATUS_TEXTS,
    BundleDefaults,
    bound_status,
    parse_bundle,
)
from hostile.mangled import JSON, TEXTS

DEFAULTS = BundleDefaults()
LONGEST = 4 * STEP_SECONDS
"""Seconds of processor time that fail a test: room for a slow machine; it was up to 1.8 s."""
LARGE = 1_400_000
"""Characters: about what etcd takes."""


def body(status: Any = None, metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    named = {"namespace": "team", "name": "shop", "uid": "u", "resourceVersion": "1"}
    spec = {"registry": "r.example", "repo": "app", **spec}
    return {"metadata": {**named, **(metadata or {})}, "spec": spec, "status": status}


def read(found: dict[str, Any]) -> BundleEntry:
    """Read a Bundle, and what is done with its status at each visit, in no long step."""

    def visit() -> BundleEntry:
        entry = read_entry(found, DEFAULTS)
        assert isinstance(entry.status.to_dict(), dict)
        return entry

    entry = visit()
    assert len(entry.unread) < 2 * BUNDLE_STATUS_TEXTS
    assert_quick(visit, LONGEST)
    return entry


NUMBERED = {f"A{n:06}": "x" for n in range(100_000)}
REFUSED = {
    "a long variable": ({"env": {"A": "x" * LARGE}}, "spec.env.A", "at most 131,072"),
    "variables": ({"env": NUMBERED}, "spec.env", "at most 256 are allowed"),
    "sources": (
        {"valuesFrom": [{"kind": "Secret", "name": "s"}] * 20_000},
        "spec.valuesFrom",
        "at most 64",
    ),
    "pod annotations": (
        {"job": {"podAnnotations": {f"a{n}": "x" * 60_000 for n in range(20)}}},
        "spec.job.podAnnotations",
        "at most 262,144",
    ),
    "a version of spaces": ({"version": " " * LARGE}, "spec.version", "at most 256 characters"),
    "a filter": ({"tagFilter": "(.?){500}z"}, "spec.tagFilter", "takes too long"),
}


@pytest.mark.parametrize(("spec", "path", "why"), REFUSED.values(), ids=REFUSED)
def test_what_is_too_much_is_refused_with_its_path(
    spec: dict[str, Any], path: str, why: str
) -> None:
    found = read(body(**spec)).spec

    assert isinstance(found, InvalidSpec)
    assert found.path == path
    assert why in found.message


@pytest.mark.parametrize("name", ["labels", "annotations"])
def test_too_much_metadata_for_a_release_is_refused_and_any_other_is_not(name: str) -> None:
    many = {f"app.kubernetes.io/l{n}": "v" for n in range(20_000)}
    found = read(body(metadata={name: many})).spec

    assert isinstance(found, InvalidSpec)
    assert found.path == f"metadata.{name}"
    assert isinstance(read(body(metadata={name: NUMBERED})).spec, BundleSpec)


CONDITION = {"type": "Ready", "status": "True", "reason": "Deployed", "message": ""}
STATUSES = {
    "a message": {"lastError": {"message": "x" * LARGE}},
    "unicode": {"lastError": {"message": "\u4e00" * (LARGE // 3)}},
    "a history": {"history": [{}] * (LARGE // 3)},
    "what was rejected": {"available": {"rejected": [{"reason": "x"}] * 80_000}},
    "conditions": {"conditions": [{**CONDITION, "type": f"T{n}"} for n in range(12_000)]},
    "unknown fields": {f"x{n}": n for n in range(100_000)},
}


@pytest.mark.parametrize("status", STATUSES.values(), ids=STATUSES)
def test_a_status_of_any_size_is_read_and_what_counts_in_it_is_kept(status: dict[str, Any]) -> None:
    deployed = {"digest": "sha256:a", "namespace": "team", "time": "2026-01-01T00:00:00Z"}
    entry = read(body({"deployed": deployed, **status}))

    assert entry.status.has_deployed
    assert entry.status.deployed.namespace == "team"


def cut(status: Any) -> Any:
    """What is left of a status that is larger than any of ours, with a text that makes it so."""
    padding = {"padding": ["x" * BUNDLE_STATUS_BYTES]}
    found = bound_status(padding | status)
    assert len(found.pop("padding")[0]) <= BUNDLE_STATUS_TEXT
    return found


def test_a_status_of_our_size_is_kept_as_it_is() -> None:
    status = {"a": "x" * (BUNDLE_STATUS_BYTES - 8)}
    assert len(msgspec.json.encode(status)) == BUNDLE_STATUS_BYTES
    assert bound_status(status) == status
    status["a"] += "x"
    assert bound_status(status) == {"a": "x" * BUNDLE_STATUS_TEXT}


def nest(depth: int, value: Any, *, lists: bool) -> Any:
    for _ in range(depth):
        value = [value] if lists else {"a": value}
    return value


@pytest.mark.parametrize("lists", [False, True])
def test_a_larger_status_is_kept_to_its_greatest_depth(lists: bool) -> None:
    deep = BUNDLE_STATUS_DEPTH - 1
    for value in ("x", 7, None, True):
        assert cut({"a": nest(deep, value, lists=lists)}) == {"a": nest(deep, value, lists=lists)}
    for value in ([], {}, ["x"], {"b": "x"}):
        assert cut({"a": nest(deep, value, lists=lists)}) == {"a": nest(deep, None, lists=lists)}


def test_of_a_larger_status_so_many_items_fields_and_characters_are_kept() -> None:
    items, fields, text = (
        BUNDLE_STATUS_ITEMS,
        BUNDLE_STATUS_FIELDS,
        BUNDLE_STATUS_TEXT,
    )
    status = {
        "list": list(range(items + 1)),
        "map": {f"f{n:03}": n for n in range(fields + 1)},
        "text": "x" * (text + 1),
        "y" * (text + 1): 1,
    }
    assert cut(status) == {
        "list": list(range(items)),
        "map": {f"f{n:03}": n for n in range(fields)},
        "text": "x" * text,
        "y" * text: 1,
    }


def test_texts_beyond_the_total_are_left_out_those_in_lists_first() -> None:
    most = BUNDLE_STATUS_TEXTS // BUNDLE_STATUS_TEXT
    whole = "x" * BUNDLE_STATUS_TEXT
    lists = {f"list{n}": [whole] * 30 for n in range(3)}
    found = cut(lists | {"text": "kept", "other": {"text": whole}})
    assert (found["text"], found["other"]) == ("kept", {"text": whole})
    texts = [text for n in range(3) for text in found[f"list{n}"]]
    # Before them came the two texts and the padding.
    assert texts == [whole] * (most - 3) + [whole[:-4]] + [""] * (90 - most + 2)


def test_a_long_request_is_told_from_another_and_answered_once() -> None:
    marks = {"operator.werf.dev/requestedAt": "x" * 200_000}
    asked = read(body(metadata={"annotations": marks}))
    assert asked.request is not None
    padding = {"lastError": {"message": "x" * LARGE}}
    status = {"lastHandledRequest": asked.request.requested_at, **padding}

    assert read(body(status, metadata={"annotations": marks})).request is None


PARTS = st.one_of(
    JSON,
    st.builds(lambda text, times: text * times, TEXTS, st.sampled_from([1, 1000, 20_000])),
    st.builds(lambda one, times: [one] * times, JSON, st.sampled_from([1, 1000, 20_000])),
    st.builds(
        lambda one, times: {f"A{n}": one for n in range(times)},
        JSON,
        st.sampled_from([1, 1000, 20_000]),
    ),
)
FIELDS = st.sampled_from(
    [
        *("registry", "repo", "version", "auth", "values", "valuesFrom", "env", "interval"),
        *("tagFilter", "werf", "job", "retry", "deletionPolicy", "project_namespace", "timeout"),
        *("conditions", "history", "available", "deployed", "attempted", "lastError", "deploy"),
    ]
)


@pytest.mark.measures
@settings(deadline=None, max_examples=60 if LONG else 20)
@given(
    st.dictionaries(FIELDS, PARTS, max_size=4), st.dictionaries(FIELDS, PARTS, max_size=3) | PARTS
)
def test_no_bundle_that_can_be_stored_takes_a_long_step(spec: dict[str, Any], status: Any) -> None:
    found = body(status, **spec)

    assert isinstance(parse_bundle(found, DEFAULTS), (BundleSpec, InvalidSpec))
    read(found)


def said(found: dict[str, Any]) -> str:
    spec = parse_bundle(found, DEFAULTS)
    return str(spec) if isinstance(spec, InvalidSpec) else "valid"


def test_the_last_byte_of_env_and_of_a_jobs_fields() -> None:
    most = BUNDLE_ENV_VALUE
    assert said(body(env={"A": "x" * (most - 1)})) == "valid"
    assert said(body(env={"A": "x" * most})) == (
        f"spec.env.A: has {most + 1:,} bytes with its name, at most {most:,}"
    )
    total = BUNDLE_ENV_BYTES
    names = {"A": "x" * (most - 1), "B": "x" * (total - most - 1)}
    assert said(body(env=names)) == "valid"
    names["B"] += "x"
    assert "in total" in said(body(env=names)) or "with its name" in said(body(env=names))

    bytes_ = BUNDLE_JOB_FIELD
    room = bytes_ - len(msgspec.json.encode({"a": ""}))
    assert said(body(job={"resources": {"a": "x" * room}})) == "valid"
    assert "spec.job.resources" in said(body(job={"resources": {"a": "x" * (room + 1)}}))
