"""Attempts that begin, and by whose writes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tests.builders.bundles import known, parsed
from tests.replacing import replace

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import (
    Attempted,
    BundleStatus,
    Deployed,
    Outcome,
    describe_cause,
)
from copyrator.bundles.engine import deciding
from copyrator.bundles.engine.bundle import BundleEntry, read_entry
from copyrator.bundles.engine.deciding import DeployReason, DesiredDeploy, Proposal
from copyrator.bundles.engine.feature import Feature
from copyrator.bundles.fields import BundleDefaults
from copyrator.bundles.jobs.identity import selection_hash

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64
INPUTS: dict[str, Any] = {
    "version": "1.0.0",
    "digest": A,
    "values_hash": "v",
    "spec_hash": "s",
    "generation": 1,
}
WANTED = DesiredDeploy(**INPUTS)
SPEC = parsed(known({"version": ">=1"}))
DONE = Attempted(**INPUTS, attempt=4, outcome=Outcome.SUCCEEDED, selection=selection_hash(SPEC))
FAILED = replace(DONE, outcome=Outcome.FAILED, version="1.1.0", digest=B)
GOOD = BundleStatus(deployed=Deployed(**INPUTS), attempted=DONE, observed_generation=1)
"""1.0.0 is deployed."""


def managed(manager: str, time: int, *annotations: str, writes_spec: bool = False) -> Any:
    """What a field manager has written last, at a second."""
    fields: dict[str, Any] = {"f:spec": {"f:version": {}}} if writes_spec else {}
    names = {f"f:operator.werf.dev/{one}": {} for one in annotations}
    fields |= {"f:metadata": {"f:annotations": names}} if names else {}
    stamp = f"2026-01-01T00:00:{time:02}Z"
    return {"manager": manager, "operation": "Update", "time": stamp, "fieldsV1": fields}


MANAGED = (
    managed("kubectl-edit", 3, writes_spec=True),
    managed("helm", 1, writes_spec=True),
    managed("kubectl-annotate", 9, "requestedAt", "pin", "approved-plan"),
    managed("ann", 9, "forceAt"),
)


def entry_of(
    status: BundleStatus,
    annotations: Mapping[str, str] | None = None,
    managed: Any = MANAGED,
    **spec: Any,
) -> BundleEntry:
    """A Bundle with this status, of the version ``>=1``."""
    body = known({"version": ">=1", **spec}, annotations, **status.to_dict())
    body["metadata"]["managedFields"] = managed
    return read_entry(body, BundleDefaults())


def begun(
    entry: BundleEntry, need: DeployReason, wanted: DesiredDeploy, *features: Feature
) -> BundleStatus:
    """The status with which an attempt begins."""
    assert isinstance(entry.spec, BundleSpec)
    status = deciding.begin(entry.status, wanted, NOW)
    proposal = Proposal(entry=entry, spec=entry.spec, status=status, wanted=wanted, now=NOW)
    status = deciding.record_cause(proposal, need)
    is_correction = need is DeployReason.CORRECTION
    for one in features:
        status = one.begun(replace(proposal, status=status), is_correction=is_correction)
    return status


def described(status: BundleStatus) -> str:
    """The cause of the newest attempt, and by what."""
    return describe_cause(status.attempted)
