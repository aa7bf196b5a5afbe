"""The annotation skip-digests: which digests are never chosen."""

from __future__ import annotations

from typing import Any

import pytest

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.schema import InvalidSpec
from copyrator.bundles.features.rollback.fields import RollbackSpec
from copyrator.bundles.fields import BundleDefaults, parse_bundle

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


def test_a_long_annotation_is_refused_in_few_words() -> None:
    found = parsed("x" * 250_000)
    assert isinstance(found, InvalidSpec)
    assert found.path == f"metadata.annotations[{NAME}]"
    assert "must have 1 to 20 digests" in found.message
    assert len(found.message) < 300
