"""The annotation pin is taken into the status, and the history keeps what it can name.

The annotation skip-digests names what is never chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import causes
from tests.builders.bundles import bundle, parsed, refused
from tests.replacing import replace

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import (
    Attempted,
    Available,
    BundleStatus,
    GateStatus,
    HistoryEntry,
    Outcome,
)
from copyrator.api.schema import Packed
from copyrator.api.text import member
from copyrator.bundles.engine.bundle import BundleEntry, read_entry
from copyrator.bundles.engine.conditions import update_pending
from copyrator.bundles.engine.deciding import DeployReason, Evidence, finish
from copyrator.bundles.features.rollback.feature import RollbackFeature
from copyrator.bundles.features.rollback.fields import PinStatus, RollbackSpec, rollback_targets
from copyrator.bundles.features.rollback.pin import take_pin
from copyrator.bundles.fields import BundleDefaults
from copyrator.bundles.jobs.outcome import Ending

NOW = datetime(2026, 11, 27, 10, tzinfo=UTC)
LATER = datetime(2026, 11, 27, 11, tzinfo=UTC)
HERE, OTHER = "registry.example.com/app", "registry.example.com/other"
A, B, C, D, E = (f"sha256:{letter * 64}" for letter in "abcde")


def spec(**fields: Any) -> BundleSpec:
    smallest = {"repo": "app", "version": "1.*"}
    return parsed(bundle(namespace="team", **smallest | fields))


def succeeded(version: str, digest: str, reference: str | None = HERE) -> HistoryEntry:
    return HistoryEntry(
        version=version, digest=digest, reference=reference, outcome=Outcome.SUCCEEDED
    )


def failed(version: str, digest: str) -> HistoryEntry:
    return replace(succeeded(version, digest), outcome=Outcome.FAILED)


def status(*past: HistoryEntry, pin: PinStatus = PinStatus()) -> BundleStatus:  # noqa: B008
    return BundleStatus(history=Packed.pack(past)).with_part(pin)


def take(
    value: str | None, found: BundleStatus, now: datetime = NOW, **fields: Any
) -> BundleStatus:
    annotations = {} if value is None else {"operator.werf.dev/pin": value}
    return take_pin(annotations, spec(**fields), found, now)


PAST = (succeeded("1.1", B), failed("1.2", C), succeeded("1.0", A))


def pinned(value: str = f"1.0@{A}") -> BundleStatus:
    return take(value, status(*PAST))


def test_a_deploy_of_the_history_is_pinned_with_the_time() -> None:
    pin = pinned().part(PinStatus)
    assert (pin.version, pin.digest, pin.requested) == ("1.0", A, f"1.0@{A}")
    assert (pin.at, pin.refused) == ("2026-11-27T10:00:00Z", None)


def test_a_value_that_was_seen_changes_nothing() -> None:
    found = pinned()
    assert take(f"1.0@{A}", found, LATER) is found
    assert take(None, status()) == status()


@pytest.mark.parametrize(
    ("value", "past", "why"),
    [
        (f"1.2@{C}", PAST, f"no successful deploy of 1.2 ({C[:19]}) from {HERE}"),
        (f"1.1@{A}", PAST, f"{A} was deployed as 1.0, not as 1.1"),
        (f"1.0@{A}", [], "no successful deploy of 1.0"),
        (
            f"1.0@{A}",
            [succeeded("1.0", A, OTHER), succeeded("1.1", B)],
            f"no successful deploy of 1.0 ({A[:19]}) from {HERE}; it has 1.0 from {OTHER}",
        ),
        (f"1.0@{A} ", PAST, "isn't VERSION@sha256:… or none"),
        (f"1.0@{A}\n", PAST, "isn't VERSION@sha256:… or none"),
        (f"1.0@{A.upper()}", PAST, "isn't VERSION@sha256:… or none"),
        (f"1.0@{A}@{A}", PAST, "isn't VERSION@sha256:… or none"),
        (f"\uff11.0@{A}", PAST, "isn't VERSION@sha256:… or none"),
        (f"@{A}", PAST, "isn't VERSION@sha256:… or none"),
        (f"{'1' * 129}@{A}", PAST, "isn't VERSION@sha256:… or none"),
        ("None", PAST, "isn't VERSION@sha256:… or none"),
        ("", PAST, "isn't VERSION@sha256:… or none"),
    ],
)
def test_what_is_refused_and_why(value: str, past: Sequence[HistoryEntry], why: str) -> None:
    pin = take(value, status(*past)).part(PinStatus)
    assert why in (pin.refused or "")
    assert (pin.requested, pin.version, pin.digest, pin.at) == (value, None, None, None)


def test_a_former_pin_stays_when_another_value_is_refused_or_the_annotation_is_removed() -> None:
    refused = take(f"1.2@{C}", pinned(), LATER)
    assert refused.part(PinStatus).refused is not None
    assert replace(refused.part(PinStatus), refused=None, requested=f"1.0@{A}") == pinned().part(
        PinStatus
    )
    assert take(None, refused, LATER).part(PinStatus) == replace(
        pinned().part(PinStatus), requested=None
    )
    assert take("none", refused).part(PinStatus) == PinStatus(requested="none")


def test_the_value_in_force_is_taken_again_also_when_the_history_has_lost_it() -> None:
    removed = take(None, pinned())
    lost = replace(removed, history=Packed.pack([succeeded("1.1", B)]))
    assert take(f"1.0@{A}", lost, LATER).part(PinStatus) == pinned().part(PinStatus)
    again = take(f"1.1@{B}", take(f"1.2@{C}", pinned()), LATER).part(PinStatus)
    assert (again.version, again.digest, again.at) == ("1.1", B, "2026-11-27T11:00:00Z")


@pytest.mark.parametrize(
    "edit",
    [
        {"version": "1.*.*"},
        {"tagFilter": "1.*"},
        {"prerelease": True},
        {"registry": "registry.example.org"},
        {"repo": "other"},
    ],
)
def test_an_edit_of_what_chooses_the_version_ends_it_for_good(edit: dict[str, Any]) -> None:
    ended = take(f"1.0@{A}", pinned(), **edit)
    assert ended.part(PinStatus) == PinStatus(requested=f"1.0@{A}")
    assert take(f"1.0@{A}", ended).part(PinStatus) == ended.part(PinStatus), (
        "not even when it is undone"
    )


def test_an_edit_together_with_another_value_takes_that() -> None:
    found = take(f"1.1@{B}", pinned(), LATER, version="1.1")
    assert (found.part(PinStatus).digest, found.part(PinStatus).at) == (B, "2026-11-27T11:00:00Z")
    assert take(f"1.1@{B}", found, version="1.1") is found
    refused = take(f"1.2@{C}", pinned(), version="1.1").part(PinStatus)
    assert refused.refused is not None
    assert refused.digest is None


def test_other_edits_leave_it() -> None:
    found = pinned()
    assert take(f"1.0@{A}", found, interval="5m", values="v", suspend=True) is found


def test_targets_are_the_successful_deploys_from_this_repository() -> None:
    past = (*PAST, succeeded("1.0", A, OTHER), succeeded("0.9", D, None))
    assert [one.digest for one in rollback_targets(status(*past), HERE)] == [B, A]


VALUES = st.sampled_from([None, "none", "", f"1.0@{A}", f"1.1@{B}", f"1.2@{C}", f"1.0@{B}"])
HISTORIES = st.lists(
    st.sampled_from([*PAST, succeeded("1.0", A, OTHER), succeeded("1.1", B, None)]), max_size=4
)
STEPS = st.lists(
    st.tuples(VALUES, HISTORIES, st.sampled_from(["1.*", "1.0", ">=1"])), min_size=1, max_size=8
)


@given(STEPS)
def test_whatever_the_order_only_what_was_deployed_from_here_gets_in(steps: Any) -> None:
    found = status()
    chosen = ""
    for value, past, version in steps:
        before = replace(found, history=Packed.pack(past))
        found = take(value, before, version=version)
        assert take(value, found, LATER, version=version) is found, "once is enough"
        assert found.part(PinStatus).requested == value
        same = version == chosen
        targets = {(one.version, one.digest) for one in rollback_targets(found, HERE)}
        now, was = (one.part(PinStatus) for one in (found, before))
        if (now.version, now.digest) != (was.version, was.digest):
            taken = value == f"{now.version}@{now.digest}" and (now.version, now.digest) in targets
            assert taken or (now.digest is None and (value == "none" or not same))
        elif now.digest is not None:
            assert same or value != was.requested, "an edit ends it"
        chosen = version


# --- the history ----------------------------------------------------------------------------------


def after(past: Sequence[HistoryEntry], outcome: Outcome = Outcome.FAILED) -> list[str]:
    """Versions of the history after one more attempt, at 9 with the digest E."""
    attempted = Attempted(version="9", digest=E, attempt=1, reference=HERE)
    found = finish(
        replace(status(*past), attempted=attempted),
        Ending(outcome, "reason", "message"),
        Evidence(),
        spec().retry,
        NOW,
    )
    return [one.version or "" for one in found.past]


def test_the_oldest_attempt_that_is_no_target_goes_first() -> None:
    past = [failed(f"f{number}", E) for number in range(6)]
    targets = [succeeded("3", C), succeeded("2", B), succeeded("1", A), succeeded("0", D)]
    assert after(targets + past) == ["9", "3", "2", "1", "0", *(f"f{at}" for at in range(5))]
    assert after(past + targets) == ["9", *(f"f{at}" for at in range(6)), "3", "2", "1"]
    assert after([*past, *past, *targets[:3]]) == [
        "9",
        *(f"f{at}" for at in range(6)),
        "3",
        "2",
        "1",
    ]
    assert after([*past, targets[2], *targets]) == [
        "9",
        *(f"f{at}" for at in range(6)),
        "1",
        "3",
        "2",
    ]


def test_of_one_digest_only_the_last_successful_deploy_stays() -> None:
    past = [*(failed(f"f{at}", E) for at in range(7)), succeeded("n", A), succeeded("m", B)]
    assert after([*past, succeeded("o", A)]) == ["9", *(f"f{at}" for at in range(7)), "n", "m"]
    assert len(after([succeeded(str(at), A) for at in range(10)], Outcome.SUCCEEDED)) == 10


def test_a_short_history_stays_whole() -> None:
    assert after(PAST) == ["9", "1.1", "1.2", "1.0"]


# --- what is said of it ---------------------------------------------------------------------------


def said(pin: PinStatus, *gates: GateStatus, available: str | None = B) -> tuple[str, str, str]:
    found = BundleStatus(
        gates=gates, available=Available(version="1.1", digest=available)
    ).with_part(pin)
    condition = update_pending(found)
    return str(condition.status), condition.reason, condition.message


PIN = PinStatus(version="1.0", digest=A)
PINNED = f"1.0 ({A[:19]}) is pinned, so no other version is deployed"
REFUSED = "The annotation operator.werf.dev/pin is refused: no"
FROZEN = GateStatus(name="freeze", state="Waiting", reason="Frozen", message="it is")


@pytest.mark.parametrize(
    ("found", "condition"),
    [
        (said(PIN), ("True", "Pinned", f"{PINNED}; the registry has 1.1 ({B[:19]})")),
        (said(PIN, available=A), ("True", "Pinned", PINNED)),
        (
            said(replace(PIN, refused="no"), available=A),
            ("True", "Pinned", f"{PINNED}. {REFUSED}; the former pin stays"),
        ),
        (
            said(PinStatus(refused="no")),
            ("False", "PinRefused", f"{REFUSED}; nothing is pinned"),
        ),
        (said(PIN, FROZEN), ("True", "Frozen", "Gate freeze: it is")),
        (
            said(PinStatus(refused="no"), FROZEN),
            ("True", "Frozen", f"Gate freeze: it is. {REFUSED}; nothing is pinned"),
        ),
        (said(PinStatus()), ("False", "UpToDate", "No version waits for a gate")),
    ],
)
def test_the_condition_update_pending_says_what_is_pinned_or_refused(
    found: tuple[str, str, str], condition: tuple[str, str, str]
) -> None:
    assert found == condition


IN_FORCE = PinStatus(requested=f"1.0@{A}", version="1.0", digest=A, at="2026-11-27T10:00:00Z")
NOT_TAKEN = PinStatus(requested="x", refused="no")


@pytest.mark.parametrize(
    ("before", "now", "events"),
    [
        (PinStatus(), PinStatus(), []),
        (PinStatus(), IN_FORCE, ["Pinned"]),
        (IN_FORCE, IN_FORCE, []),
        (IN_FORCE, replace(IN_FORCE, requested=None), []),
        (IN_FORCE, replace(IN_FORCE, at="2026-11-27T11:00:00Z"), ["Pinned"]),
        (IN_FORCE, replace(IN_FORCE, digest=B), ["Pinned"]),
        (PinStatus(), NOT_TAKEN, ["PinRefused"]),
        (NOT_TAKEN, NOT_TAKEN, []),
        (NOT_TAKEN, replace(NOT_TAKEN, requested="y"), ["PinRefused"]),
        (NOT_TAKEN, PinStatus(requested="none"), []),
        (IN_FORCE, replace(IN_FORCE, requested="x", refused="no"), ["PinRefused"]),
        (IN_FORCE, PinStatus(requested="none"), ["Unpinned: the annotation"]),
        (IN_FORCE, PinStatus(requested=f"1.0@{A}"), ["Unpinned: the version,"]),
        (IN_FORCE, PinStatus(), ["Unpinned: the version,"]),
        (IN_FORCE, NOT_TAKEN, ["PinRefused", "Unpinned: the version,"]),
    ],
)
def test_each_change_is_told_once(before: PinStatus, now: PinStatus, events: list[str]) -> None:
    told: list[str] = []

    def emit(_entry: BundleEntry, reason: str, message: str) -> None:
        _, ended, why = message.partition(" any more: ")
        told.append(f"{reason}: {' '.join(why.split()[:2])}" if ended else reason)

    def entry(pin: PinStatus) -> BundleEntry:
        body = {
            "metadata": {"namespace": "team", "name": "shop"},
            "spec": {"registry": "registry.example.com", "repo": "app"},
            "status": BundleStatus().with_part(pin).to_dict(),
        }
        return read_entry(body, BundleDefaults())

    context: Any = SimpleNamespace(emit=emit)
    RollbackFeature(context).record(entry(before), entry(now))
    assert told == events


@pytest.mark.parametrize(
    ("digest", "need", "cause"),
    [
        (B, DeployReason.VERSION, "Rollback, by field manager kubectl-annotate"),
        # pinned together with a force
        (B, DeployReason.REQUEST, "Rollback, by field manager kubectl-annotate"),
        (A, DeployReason.VALUES, "ValuesChanged"),  # while it is pinned
        (A, DeployReason.CORRECTION, "Correction"),
    ],
)
def test_a_pin_is_the_cause_of_the_first_attempt_at_its_version(
    digest: str, need: DeployReason, cause: str
) -> None:
    pin = PinStatus(requested=f"1.0.0@{digest}", version="1.0.0", digest=digest)
    entry = causes.entry_of(causes.GOOD.with_part(pin))
    wanted = replace(causes.WANTED, digest=digest, values_hash="w")
    found = causes.begun(entry, need, wanted, RollbackFeature(cast("Any", None)))
    assert causes.described(found) == cause


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
    assert "isn't a digest; write each as sha256:" in refused(annotated("1.0.0")).message
