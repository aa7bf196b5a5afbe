"""What an attempt is made for, and by what: decided with it, and kept with its outcome."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.builders.bundles import known
from tests.builders.causes import FAILED, GOOD, WANTED, A, B, begun, described, entry_of
from tests.replacing import replace

from copyrator.api.bundle_spec import BundleSpec, Retry
from copyrator.api.bundle_status import BundleStatus, HistoryEntry, Outcome, describe_cause
from copyrator.bundles.engine import deciding
from copyrator.bundles.engine.bundle import DeployRequest, read_entry
from copyrator.bundles.engine.deciding import DeployReason
from copyrator.bundles.fields import BundleDefaults
from copyrator.bundles.jobs.identity import selection_hash
from copyrator.bundles.jobs.outcome import Ending

BROKEN = replace(GOOD, attempted=FAILED)
"""1.0.0 is deployed, and 1.1.0 has failed."""
NEW = {"version": "1.1.0", "digest": B}
EDITED = {"spec_hash": "t", "generation": 2}
WAITED = replace(GOOD, observed_generation=2)
"""A decision has seen the edit, and a gate has delayed what it asked for."""
NEED = DeployReason
BY_EDITOR = "SpecChanged, by field manager kubectl-edit"


def unpinned(version: str) -> BundleStatus:
    """A status whose last attempt was made while the spec named this version."""
    spec = entry_of(GOOD, version=version).spec
    assert isinstance(spec, BundleSpec)
    return replace(GOOD, attempted=replace(GOOD.attempted, selection=selection_hash(spec)))


@pytest.mark.parametrize(
    ("status", "need", "changes", "spec", "cause"),
    [
        (BundleStatus(), NEED.FIRST, {}, {}, "NewVersion"),
        (GOOD, NEED.VERSION, NEW, {}, "NewVersion"),
        (GOOD, NEED.VERSION, {"digest": B}, {}, "NewVersion"),
        (GOOD, NEED.VALUES, {"values_hash": "w"}, {}, "ValuesChanged"),
        (GOOD, NEED.SPEC, EDITED, {}, BY_EDITOR),
        # labels that the release gets: whoever wrote the spec didn't change them
        (GOOD, NEED.SPEC, {"spec_hash": "t"}, {}, "SpecChanged"),
        (BROKEN, NEED.RETRY, NEW, {}, "Retry"),
        (BROKEN, NEED.AGAIN, NEW, {}, "Retry"),
        (GOOD, NEED.CORRECTION, {}, {}, "Correction"),
        # what the spec names has changed, not what the registry has; also if it had to wait
        (GOOD, NEED.VERSION, {**NEW, "generation": 2}, {"version": "1.1.0"}, BY_EDITOR),
        (WAITED, NEED.VERSION, {**NEW, "generation": 2}, {"version": "1.1.0"}, BY_EDITOR),
        (WAITED, NEED.VERSION, {**NEW, "generation": 2}, {"version": "1.*"}, "NewVersion"),
        (GOOD, NEED.VERSION, {**NEW, "generation": 2}, {"version": "1.*"}, BY_EDITOR),
        (GOOD, NEED.VERSION, NEW, {"version": "1.*"}, "NewVersion"),  # pushed since the edit
        # another edit, and a version that was pushed before it
        (replace(GOOD, observed_generation=0), NEED.VERSION, NEW, {"interval": "1h"}, "NewVersion"),
        # after a pin has ended the deployed version isn't what the spec names, either
        (unpinned("1.1.0"), NEED.VERSION, NEW, {"version": "1.1.0"}, "NewVersion"),
        # the last attempt is what they are compared with, whatever is deployed
        (BROKEN, NEED.VERSION, {**NEW, "values_hash": "w"}, {}, "ValuesChanged"),
        (BROKEN, NEED.REPAIR, {}, {}, "NewVersion"),
        (
            replace(BROKEN, attempted=replace(FAILED, digest=A, version="1.0.0")),
            NEED.REPAIR,
            {"generation": 2},
            {},
            BY_EDITOR,
        ),
        (BundleStatus(attempted=FAILED), NEED.FIRST, {"version": "1.2.0"}, {}, "NewVersion"),
        (BundleStatus(deployed=GOOD.deployed), NEED.VERSION, NEW, {}, "NewVersion"),
    ],
)
def test_a_cause_is_what_has_changed_since_the_last_attempt(
    status: BundleStatus,
    need: DeployReason,
    changes: dict[str, Any],
    spec: dict[str, Any],
    cause: str,
) -> None:
    assert described(begun(entry_of(status, **spec), need, replace(WANTED, **changes))) == cause


@pytest.mark.parametrize(
    ("request_", "by"),
    [
        ({"requested_at": "x"}, ", by field manager kubectl-annotate"),
        ({"force_at": "x"}, ", by field manager ann"),  # a name that it chose, so never alone
        ({"force_at": "x", "requested_at": "x"}, ", by field manager ann"),
        ({"force_update": True}, ""),
    ],
    ids=str,
)
def test_a_request_names_the_field_manager_that_wrote_it(request_: dict[str, Any], by: str) -> None:
    wanted = replace(WANTED, request=DeployRequest(**request_))
    status = begun(entry_of(GOOD), NEED.REQUEST, wanted)
    assert described(status) == f"Requested{by}"


@pytest.mark.parametrize("managed", [None, [], [{"manager": "x", "fieldsV1": {}}]], ids=str)
def test_without_managed_fields_it_isnt_known_who_wrote_something(managed: Any) -> None:
    entry = entry_of(GOOD, managed=managed)
    assert described(begun(entry, NEED.SPEC, replace(WANTED, **EDITED))) == "SpecChanged"


def test_an_annotation_with_a_name_changes_nothing() -> None:
    names = {"approved-by": "ann", "by": "ann", "requestedAt": "ann"}
    entry = entry_of(GOOD, annotations=names)
    wanted = replace(WANTED, request=DeployRequest(requested_at="ann"))
    assert described(begun(entry, NEED.REQUEST, wanted)) == (
        "Requested, by field manager kubectl-annotate"
    )


@pytest.mark.parametrize("outcome", list(Outcome)[1:])
def test_cause_and_writer_are_kept_from_the_attempt_to_the_history(outcome: Outcome) -> None:
    status = begun(entry_of(GOOD), NEED.SPEC, replace(WANTED, **EDITED))
    body = json.loads(json.dumps(known(**status.to_dict())))  # another process goes on
    body["metadata"]["managedFields"] = []
    later = read_entry(body, BundleDefaults()).status
    ending = Ending(outcome, None, "x")
    ended = deciding.finish(later, ending, deciding.NO_EVIDENCE, Retry(), datetime.now(UTC))
    (entry,) = ended.past
    assert (entry.cause, entry.by) == ("SpecChanged", "field manager kubectl-edit")


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (HistoryEntry(), ""),
        (HistoryEntry(correction=True), "Correction"),
        (HistoryEntry(approved_by="ann"), "approved by ann"),
        (HistoryEntry(cause="Retry", by="ann", approved_by="ann"), "Retry, approved by ann"),
        (HistoryEntry(cause="Retry", by="ann"), "Retry, by ann"),
        (HistoryEntry(cause="Retry", approved_by="ann"), "Retry"),
    ],
    ids=str,
)
def test_entries_without_a_cause_are_readable(entry: HistoryEntry, text: str) -> None:
    assert describe_cause(entry) == text
