"""The reasons of the engine and of the features, as one table."""

from __future__ import annotations

import pytest

from copyrator.api.reasons.bundles import BundleEvent, BundleReason
from copyrator.bundles.features import listed
from copyrator.bundles.fields import bundle_reasons, read_reason


@pytest.mark.parametrize(
    ("engine", "name"),
    [(BundleReason, "REASONS"), (BundleEvent, "EVENTS")],
    ids=["reasons", "events"],
)
def test_no_word_has_two_rows(engine: type[BundleReason | BundleEvent], name: str) -> None:
    words = [str(row) for kind in (engine, *listed("reasons", name)) for row in kind]
    assert len(words) > len(engine)
    assert len(words) == len(set(words))


def test_a_word_of_a_status_is_its_row() -> None:
    assert [read_reason(str(one)) for one in bundle_reasons().values()] == [
        *bundle_reasons().values()
    ]
    assert read_reason("Forged") == "Forged"
