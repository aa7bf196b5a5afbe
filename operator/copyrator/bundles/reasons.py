"""The reasons of Bundles: those of the engine, and those that the features' folders list."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from copyrator.api.reasons import AnyReason, KeptReason, Reason
from copyrator.api.reasons.bundles import BundleReason
from copyrator.bundles.features import listed


@cache
def bundle_reasons() -> Mapping[str, Reason]:
    """Those of Ready, UpdatePending, gates and attempts, by their words."""
    kinds = (BundleReason, *listed("reasons", "REASONS"))
    return {str(row): row for kind in kinds for row in kind}


def read_reason(word: str) -> AnyReason:
    """The row of such a word of a status; the word itself where there is none."""
    return bundle_reasons().get(word) or KeptReason(word)
