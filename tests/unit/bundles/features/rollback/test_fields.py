"""The annotation skip-digests: which digests are never chosen."""

from __future__ import annotations

from typing import Any

import pytest
from tests.builders.bundles import bundle, parsed, refused

from copyrator.api.text import member
from copyrator.bundles.features.rollback.fields import RollbackSpec

A, B = (f"sha256:{letter * 64}" for letter in "ab")
NAME = "operator.werf.dev/skip-digests"


def annotated(value: str | None) -> dict[str, Any]:
    body = bundle()
    body["metadata"]["annotations"] = {NAME: value}
    return body


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
    assert parsed(annotated(value)).part(RollbackSpec).skip_digests == expected


def test_a_long_annotation_is_refused_in_few_words() -> None:
    found = refused(annotated("x" * 250_000))
    assert found.path == f"metadata.annotations{member(NAME)}"
    assert "must have 1 to 20 digests" in found.message
    assert len(found.message) < 300
