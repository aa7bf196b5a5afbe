"""What the stand-in reads of manifests."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from localcluster.standin import manifests, rendering
from localcluster.standin.errors import WerfError
from localcluster.standin.settings import Deploy


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-11-29", "2026-11-29"),
        ("12:30", "12:30"),
        ("1e3", 1000),
        ("1.5", 1.5),
        ("0644", 420),
        ("yes", True),
        ("1.2.3", "1.2.3"),
        ("'1'", "1"),
        ("{2: a, true: b}", {"2": "a", "true": "b"}),
    ],
)
def test_scalars_are_read_as_gos_library_does(text: str, value: Any) -> None:
    ((body,),) = manifests.parse_each([f"value: {text}"])
    assert json.dumps(body) == json.dumps({"value": value}), "1000 is not 1000.0"


def test_each_text_may_have_any_number_of_objects_and_they_share_nothing() -> None:
    found = manifests.parse_each(["a: &x {b: 1}\nc: *x\n---\n---\nd: 2", "", "# only this"])
    assert found == [[{"a": {"b": 1}, "c": {"b": 1}}, {"d": 2}], [], []]
    assert found[0][0]["a"] is not found[0][0]["c"], "each may be changed"


def test_what_is_written_is_read_again() -> None:
    value: dict[str, Any] = {
        "a": ["yes", "1e3", "12:30", "2026-11-29", "", "x\ny\n", None, 1.5, {"b": {}}]
    }
    assert manifests.parse_each([manifests.dump(value)]) == [[json.loads(json.dumps(value))]]


@pytest.mark.parametrize("text", ["a: [", "a: !!binary aGk="])
def test_what_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises(WerfError, match="parse manifests: "):
        manifests.parse_each([text])


@pytest.mark.parametrize(
    "text", ["5", "abc", "kind: A", "kind: A\nmetadata:", "kind: A\nmetadata: x", "metadata: {}"]
)
def test_a_manifest_that_is_no_object_is_an_error(text: str) -> None:
    with pytest.raises(WerfError, match="no object with a kind and metadata in"):
        rendering._read([("a.yaml", text)], cast("Deploy", None), Path())
