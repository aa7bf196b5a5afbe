"""What the parser of Bundles says, word for word, and where its limits are."""

from __future__ import annotations

from typing import Any

import pytest

from copyrator.api.bundle import parse_bundle
from copyrator.api.bundle_spec import BundleDefaults, BundleSpec
from copyrator.api.fields import InvalidSpec


def parsed(**spec: Any) -> BundleSpec | InvalidSpec:
    body = {
        "metadata": {"namespace": "team", "name": "shop"},
        "spec": {"registry": "r.example", "repo": "app", **spec},
    }
    return parse_bundle(body, BundleDefaults())


DIGEST = (
    "spec.version: must be a tag, wildcard or range, not a digest; the operator resolves the digest"
)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"version": "sha256:ab"}, DIGEST),
        ({"version": "1.0.0@sha256:ab"}, DIGEST),
        (
            {"env": {"A": 2**64}},
            (
                "spec.env[A]: must be a string, number or boolean, not a number that large; "
                "write it in quotes"
            ),
        ),
        ({"env": {"A": []}}, "spec.env[A]: must be a string, number or boolean, not a list"),
        ({"env": {"A": "a\0b"}}, "spec.env[A]: must not contain a NUL character"),
        (
            {"job": {"podLabels": {"operator.werf.dev/bundle": "x"}}},
            "spec.job.podLabels[operator.werf.dev/bundle]: is set by the operator; remove it",
        ),
        (
            {"job": {"podLabels": {"-": "x"}}},
            (
                "spec.job.podLabels: '-' isn't a valid label key; use at most 63 letters, digits, "
                "'-', '_' and '.', beginning and ending with a letter or digit"
            ),
        ),
    ],
)
def test_a_bundle_that_is_wrong_says_where_and_what_to_do(
    spec: dict[str, Any], message: str
) -> None:
    assert str(parsed(**spec)) == message


def test_an_image_has_at_most_512_characters() -> None:
    assert isinstance(parsed(werf={"image": "r/" + "a" * 510}), BundleSpec)
    assert isinstance(parsed(werf={"image": "r/" + "a" * 511}), InvalidSpec)
