"""Which field manager wrote the spec and annotations last, whatever a client has sent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.causes import managed

from copyrator.api.field_managers import last_managers
from hostile.mangled import JSON

PREFIX = "operator.werf.dev/"
PIN = f"{PREFIX}pin"


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        ([], {}),
        ([managed("helm", 1, writes_spec=True)], {"spec": "helm"}),
        (
            [managed("new", 2, writes_spec=True), managed("old", 1, "pin", writes_spec=True)],
            {"spec": "new", PIN: "old"},
        ),
        (
            [managed("one", 1, writes_spec=True), managed("two", 1, writes_spec=True)],
            {"spec": "two"},
        ),
        ([managed("", 1, writes_spec=True)], {}),
        ([managed("x" * 500, 1, "pin")], {PIN: "x" * 128}),
        (
            [{"manager": "x", "fieldsV1": {"f:metadata": {"f:annotations": {"f:other/pin": {}}}}}],
            {},
        ),
        ([{"manager": "x", "fieldsV1": {"f:status": {"f:ready": {}}}}], {}),
    ],
)
def test_the_newest_time_counts(entries: list[Any], found: dict[str, str]) -> None:
    assert last_managers({"managedFields": entries}, PREFIX) == found


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("kubectl-client-side-apply", "kubectl-client-side-apply"),
        ("x, approved by ann", '"x, approved by ann"'),
        ('x" approved by "ann', '"x\\" approved by \\"ann"'),
        ("\u0430nn", '"\\u0430nn"'),
    ],
)
def test_a_name_reads_as_a_name(name: str, shown: str) -> None:
    found = last_managers({"managedFields": [managed(name, 1, "pin")]}, PREFIX)
    assert found.writer(PIN) == f"field manager {shown}"


@given(st.lists(st.dictionaries(st.sampled_from(["manager", "time", "fieldsV1"]), JSON)))
def test_any_managed_fields_are_read(entries: list[Any]) -> None:
    assert all(len(one) <= 128 for one in last_managers({"managedFields": entries}, "").values())
