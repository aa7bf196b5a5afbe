"""The annotation skip-digests: which digests are never chosen."""

from __future__ import annotations

from typing import Any

import pytest

from copyrator.api.bundle import BundleDefaults, parse_bundle
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.fields import InvalidSpec
from copyrator.api.rollback import RollbackSpec

A, B = (f"sha256:{letter * 64}" for letter in "ab")
NAME = "operator.werf.dev/skip-digests"


def parsed(value: Any) -> BundleSpec | InvalidSpec:
    body = {
        "metadata": {"namespace": "apps", "name": "shop", "annotations": {NAME: value}},
        "spec": {"registry": "r.example.com", "repo": "shop"},
    }
    return parse_bundle(body, BundleDefaults())


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ()),
        (A, (A,)),
        (f"{B},{A}", (A, B)),
        (f"{B}, {A}", (A, B)),
        (f"\n{B}\n{A},\n", (A, B)),
        (f"{A},{A}", (A,)),
    ],
)
def test_digests_are_read_in_any_layout(value: str | None, expected: tuple[str, ...]) -> None:
    found = parsed(value)
    assert isinstance(found, BundleSpec)
    assert found.part(RollbackSpec).skip_digests == expected


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("", "must not be empty"),
        (" , ", "must have 1 to 20 digests"),
        ("1.2.3", "'1.2.3' isn't a digest"),
        (A[:-1], "isn't a digest"),
        (A.upper(), "isn't a digest"),
        (f"{A};{B}", "isn't a digest"),
        (A.removeprefix("sha256:"), "isn't a digest"),
        (",".join([A] * 21), "must have 1 to 20 digests"),
        ("x" * 250_000, "must have 1 to 20 digests"),
        (True, "must be a string"),
    ],
)
def test_what_can_not_be_read_stops_the_bundle(value: Any, said: str) -> None:
    found = parsed(value)
    assert isinstance(found, InvalidSpec)
    assert found.path == f"metadata.annotations[{NAME}]"
    assert said in found.message
    assert len(found.message) < 300


def test_twenty_digests_are_read() -> None:
    found = parsed(", ".join(f"sha256:{number:064x}" for number in range(20)))
    assert isinstance(found, BundleSpec)
    assert len(found.part(RollbackSpec).skip_digests) == 20
