"""The gate of the annotation skip-digests."""

from __future__ import annotations

from datetime import UTC, datetime

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.bundles.engine.gate import PASSED, Candidate, Facts, Occasion, Refused
from copyrator.bundles.features.rollback.fields import RollbackSpec
from copyrator.bundles.features.rollback.gates import GATE

NAMED, OTHER = (f"sha256:{letter * 64}" for letter in "ab")
SPEC = BundleSpec(
    namespace="apps",
    name="shop",
    registry="r",
    repo="a",
    project_namespace="apps",
    parts=(RollbackSpec((NAMED,)),),
)


def test_what_is_named_is_refused_until_it_is_named_no_longer() -> None:
    facts, now = Facts(BundleStatus(), Occasion.NEW_DIGEST), datetime(2026, 5, 4, tzinfo=UTC)
    assert GATE.judge(SPEC, Candidate("1", NAMED), facts, now) == Refused(
        "Skipped",
        f"the annotation operator.werf.dev/skip-digests names {NAMED}",
        is_retried=True,
    )
    assert GATE.judge(SPEC, Candidate("1", OTHER), facts, now) is PASSED
