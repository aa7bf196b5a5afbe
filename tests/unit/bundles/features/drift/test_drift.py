"""What is drift, when it is looked for, and what is done about it: tables and properties."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.bundles import bundle, parsed
from tests.replacing import replace
from tests.status_fields import changed
from tests.unit.bundles.plans.plan_samples import DEPLOYED, MADE_OF, NOW, PLANNED, TARGET
from tests.unit.bundles.plans.plan_samples import spec as spec_of

from copyrator.api.bundle_spec import BundleSpec, Retry
from copyrator.api.bundle_status import Attempted, BundleStatus, Outcome
from copyrator.api.conditions import ConditionStatus
from copyrator.api.selectors import Globs
from copyrator.api.text import format_time
from copyrator.api.verify import Verification
from copyrator.bundles.engine import deciding
from copyrator.bundles.engine.bundle import Memories
from copyrator.bundles.engine.feature import Features
from copyrator.bundles.features.approval import record as deploy_record
from copyrator.bundles.features.approval.feature import ApprovalFeature
from copyrator.bundles.features.approval.record import DEPLOY
from copyrator.bundles.features.drift import record as drift_record
from copyrator.bundles.features.drift.feature import DriftFeature
from copyrator.bundles.features.drift.fields import (
    MAX_DRIFTED,
    DriftCheck,
    DriftMode,
    DriftSpec,
    DriftStatus,
    DriftVerdict,
    Ignored,
)
from copyrator.bundles.features.drift.record import (
    AT_ONCE,
    DriftFindings,
    check_rhythm,
    compare_with_baseline,
    drifted_condition,
    due_at,
)
from copyrator.bundles.features.previews.feature import PreviewFeature
from copyrator.bundles.features.previews.fields import PreviewPlan
from copyrator.bundles.plans import record as plan_record
from copyrator.bundles.plans.fields import ApprovalMode, ApprovedPlan, Baseline, PlanStatus
from copyrator.bundles.plans.operations import Operation, OperationType, Plan, read_operation
from copyrator.bundles.plans.record import PlanFault, PlanResult

UID = "1b9c"
HOUR = timedelta(hours=1)
THERE = replace(DEPLOYED, reference="r/a", time=format_time(NOW))
BASE = Baseline(
    digest="sha256:b", values_hash="v", spec_hash="s", job="base", made_at=format_time(NOW)
)
TRIED = Attempted(attempt=1, outcome=Outcome.SUCCEEDED, finished_at=format_time(NOW))
CHECK = DriftCheck(
    **MADE_OF, job="check-1", number=1, outcome="Planned", seal="seal", started_at=format_time(NOW)
)
FOUND = DriftStatus(
    check=CHECK,
    checked_at=format_time(NOW),
    verdict=DriftVerdict.DRIFTED,
    attempt=1,
    objects=("update ::ConfigMap:app",),
    count=1,
    since=format_time(NOW),
    found_job="check-1",
)


def spec(mode: DriftMode = DriftMode.CORRECT, *ignore: Ignored, **more: Any) -> BundleSpec:
    drift = DriftSpec(mode, 3600.0, ignore)
    return spec_of(more.pop("approval", ApprovalMode.NEVER), drift, **more)


def status(**changes: Any) -> BundleStatus:
    known = {"deployed": THERE, "attempted": TRIED, "baseline": BASE, "drift": FOUND}
    return changed(BundleStatus(), **known | changes)


def operation(text: str) -> Operation:
    found = read_operation(text)
    assert found is not None
    return found


def ops(*texts: str) -> tuple[Operation, ...]:
    return tuple(map(operation, texts))


HOOK, AGAIN = "recreate :batch:Job:mig", "create :batch:Job:mig"
EDITED = "update ::ConfigMap:app"
BLIND = "apply ::ConfigMap:app"


@pytest.mark.parametrize(
    ("found", "baseline", "drift", "unseen"),
    [
        ([], [], [], []),
        ([EDITED], [], [EDITED], []),
        ([EDITED], [EDITED], [], []),
        ([HOOK], [AGAIN], [], []),
        ([AGAIN], [HOOK], [], []),
        ([AGAIN], [], [AGAIN], []),
        (["delete :batch:Job:mig"], [HOOK], ["delete :batch:Job:mig"], []),
        (["create ::ConfigMap:app"], [EDITED], ["create ::ConfigMap:app"], []),  # it was deleted
        ([EDITED], ["create ::ConfigMap:app"], [EDITED], []),
        ([BLIND], [], [], [BLIND]),
        ([BLIND], [BLIND], [], []),
        ([BLIND, EDITED], [], [EDITED], [BLIND]),
        (["update a::ConfigMap:app"], [EDITED], ["update a::ConfigMap:app"], []),
    ],
)
def test_drift_is_what_the_baseline_hasnt(
    found: list[str], baseline: list[str], drift: list[str], unseen: list[str]
) -> None:
    wanted = DriftFindings(ops(*drift), ops(*unseen))
    assert compare_with_baseline(ops(*found), ops(*baseline), DriftSpec()) == wanted


@pytest.mark.parametrize(
    ("kind", "name", "is_ignored"),
    [
        ("ConfigMap", "app", True),
        ("ConfigMap", "a*", True),
        ("ConfigMap", "*", True),
        ("ConfigMap", "ap", False),
        ("configmap", "app", False),
        ("Config*", "app", False),
        ("Secret", "*", False),
    ],
)
def test_a_kind_is_exact_and_a_name_a_pattern(kind: str, name: str, is_ignored: bool) -> None:
    drift = DriftSpec(DriftMode.DETECT, 3600.0, (Ignored(kind, Globs((name,))),))
    assert compare_with_baseline(ops(EDITED), (), drift) == DriftFindings(
        () if is_ignored else ops(EDITED)
    )


operations = st.builds(
    Operation,
    type=st.sampled_from(OperationType),
    namespace=st.sampled_from(["", "other"]),
    group=st.sampled_from(["", "apps"]),
    kind=st.sampled_from(["ConfigMap", "Job"]),
    name=st.sampled_from(["a", "b"]),
)


@given(found=st.lists(operations), baseline=st.lists(operations), more=st.lists(operations))
def test_a_larger_baseline_never_shows_more(
    found: list[Operation], baseline: list[Operation], more: list[Operation]
) -> None:
    def all_of(base: list[Operation]) -> set[Operation]:
        beyond = compare_with_baseline(found, base, DriftSpec())
        return {*beyond.drifted, *beyond.unseen}

    assert all_of([*baseline, *more]) <= all_of(baseline) <= set(found)
    assert all_of(found) == set()


REGULAR = check_rhythm(UID, 3600.0).after(NOW)
SOON = NOW + timedelta(seconds=30)
BROKEN = Attempted(
    attempt=2,
    outcome=Outcome.INTERRUPTED,
    correction=True,
    interruptions=1,
    next_retry_at=format_time(SOON),
    plan_job="check-1",
)
FAILED = replace(CHECK, outcome="Failed", started_at=format_time(NOW))


@pytest.mark.parametrize(
    ("what", "wanted"),
    [
        (status(), REGULAR),
        (status(drift=DriftStatus()), REGULAR),  # by the baseline's time
        (status(drift=DriftStatus(), baseline=replace(BASE, made_at=None)), AT_ONCE),
        (status(baseline=Baseline()), AT_ONCE),
        (status(baseline=replace(BASE, values_hash="other")), AT_ONCE),
        (status(drift=replace(FOUND, check=replace(CHECK, outcome="Running"))), None),
        (status(deployed=replace(THERE, digest=None)), None),
        (status(deployed=replace(THERE, reference="other/a")), None),
        (status(deployed=replace(THERE, spec_hash="other")), None),
        (status(attempted=replace(TRIED, outcome=Outcome.FAILED)), None),
        (status(attempted=replace(TRIED, outcome=Outcome.RUNNING)), None),
        (status(attempted=replace(TRIED, outcome=Outcome.INTERRUPTED)), None),
        # a deploy since drift was found
        (status(attempted=replace(TRIED, attempt=2)), AT_ONCE),
        (
            status(
                attempted=replace(TRIED, attempt=2),
                drift=replace(FOUND, verdict=DriftVerdict.NOT_DRIFTED),
            ),
            REGULAR,
        ),
        # a correction that wasn't made
        (status(attempted=BROKEN), SOON),
        (status(attempted=replace(BROKEN, interruptions=2)), SOON),
        (status(attempted=replace(BROKEN, interruptions=3)), REGULAR),
        (status(attempted=replace(BROKEN, next_retry_at=None)), REGULAR),
        # a baseline that failed: half a minute later, then doubling, then regularly
        (status(baseline=Baseline(), drift=DriftStatus(check=FAILED)), SOON),
        (
            status(
                baseline=Baseline(),
                drift=DriftStatus(check=FAILED),
                deployed=replace(THERE, time=format_time(NOW - timedelta(minutes=4))),
            ),
            NOW + timedelta(minutes=4),
        ),
        (
            status(
                baseline=Baseline(),
                drift=DriftStatus(check=FAILED),
                deployed=replace(THERE, time=format_time(NOW - timedelta(minutes=8))),
            ),
            REGULAR,
        ),
        (
            status(
                baseline=Baseline(), drift=DriftStatus(check=replace(FAILED, digest="sha256:a"))
            ),
            AT_ONCE,
        ),
    ],
)
def test_when_the_next_check_begins(what: BundleStatus, wanted: datetime | None) -> None:
    assert due_at(what, spec(), "s", UID) == wanted


def test_without_retries_the_first_interruption_is_too_many() -> None:
    asked = replace(spec(), retry=Retry(limit=0, backoff=30))
    for interruptions, due in ((None, SOON), (1, REGULAR)):
        what = status(attempted=replace(BROKEN, interruptions=interruptions))
        assert due_at(what, asked, "s", UID) == due


@pytest.mark.parametrize(
    ("asked", "based", "wanted"),
    [
        (spec(DriftMode.OFF), False, None),
        (spec(DriftMode.OFF, approval=ApprovalMode.ALWAYS), False, None),
        (spec(DriftMode.OFF, approval=ApprovalMode.ON_RISK), False, AT_ONCE),
        (spec(DriftMode.OFF, approval=ApprovalMode.ON_RISK), True, None),
        (spec(DriftMode.DETECT), True, REGULAR),
        (spec(DriftMode.DETECT, suspend=True), True, None),
        (spec(DriftMode.DETECT, suspend=True), False, None),
    ],
)
def test_who_is_checked(asked: BundleSpec, based: bool, wanted: datetime | None) -> None:
    what = status() if based else status(baseline=Baseline())
    assert due_at(what, asked, "s", UID) == wanted


def check_fails(what: BundleStatus) -> BundleStatus:
    what = plan_record.record_failure(what, drift_record.CHECK, PlanFault("no"), Retry(), NOW)
    return drift_record.set_unknown(what, "PlanFailed", "no")


PLAN = PlanResult(Plan(3, ops(EDITED)), None)


@pytest.mark.parametrize(
    ("deployed", "unproven"),
    [
        (NOW, None),
        (NOW - timedelta(minutes=15), None),
        (NOW - timedelta(minutes=15, seconds=1), True),
    ],
)
def test_a_baseline_that_is_made_late_is_unproven(
    deployed: datetime, unproven: bool | None
) -> None:
    what = status(deployed=replace(THERE, time=format_time(deployed)), baseline=Baseline())
    what = plan_record.record_plan(what, drift_record.CHECK, TARGET, "check-2", NOW)
    what = drift_record.set_baseline(
        drift_record.record_check_result(
            what, replace(PLAN, seal="seal-2"), NOW + HOUR, bound=False
        ),
        NOW + HOUR,
    )
    assert what.part(Baseline) == Baseline(
        digest="sha256:b",
        values_hash="v",
        spec_hash="s",
        job="check-2",
        seal="seal-2",
        made_at=format_time(NOW + HOUR),
        bound=False,
        unproven=unproven,
    )
    assert what.part(DriftStatus).verdict == DriftVerdict.NOT_DRIFTED
    assert what.part(DriftStatus).check.number == 2
    found = drifted_condition(what, spec())
    assert found is not None
    assert ("isn't seen" in found.message) is (unproven is True)


def judge(
    before: DriftStatus, *found: str, is_regular: bool = False, **changes: Any
) -> DriftStatus:
    beyond = compare_with_baseline(ops(*found), (), DriftSpec())
    what = status(drift=before, **changes)
    return drift_record.record_verdict(
        what, beyond, "check-9", NOW + HOUR, is_regular=is_regular
    ).part(DriftStatus)


def test_what_drifts_on_has_drifted_since_it_was_found_first() -> None:
    first = judge(DriftStatus(check=CHECK), EDITED)
    assert (first.since, first.found_job, first.count) == (format_time(NOW + HOUR), "check-9", 1)
    assert judge(FOUND, EDITED).since == FOUND.since
    gone = judge(FOUND)
    assert (gone.verdict, gone.since, gone.found_job) == (DriftVerdict.NOT_DRIFTED, None, None)
    assert judge(FOUND, BLIND).verdict == DriftVerdict.UNKNOWN
    assert judge(FOUND, EDITED, BLIND).verdict == DriftVerdict.DRIFTED


def test_only_what_has_drifted_may_be_put_back_differently() -> None:
    """And only as long as it drifts: then a correction waits for approval."""

    def judged(*found: str, differs: bool) -> DriftStatus:
        beyond = compare_with_baseline(ops(*found), (), DriftSpec())
        before = status(drift=replace(FOUND, differs=True))
        return drift_record.record_verdict(
            before, beyond, "check-9", NOW, is_regular=True, differs=differs
        ).part(DriftStatus)

    assert judged(EDITED, differs=True).differs is True
    assert judged(EDITED, differs=False).differs is None
    assert judged(differs=True).differs is None
    differs = status(drift=replace(FOUND, differs=True))
    assert drift_record.set_unknown(differs, "PlanFailed", "no").part(DriftStatus).differs is None
    ignoring = spec(DriftMode.CORRECT, Ignored("ConfigMap", Globs(("*",))))
    assert drift_record.remove_ignored(differs, ignoring).part(DriftStatus).differs is None


def test_a_status_lists_a_few_and_counts_all() -> None:
    many = [f"update ::ConfigMap:a{number:03}" for number in range(1000)]
    found = judge(DriftStatus(), *many)
    assert (len(found.objects), found.count) == (MAX_DRIFTED, 1000)


TWICE = replace(FOUND, corrections=2, corrected=("update ::ConfigMap:app",))


@pytest.mark.parametrize(
    ("found", "is_regular", "corrections"),
    [
        ((EDITED,), True, 2),
        (("delete ::ConfigMap:app",), True, 2),  # the same object
        (("update ::ConfigMap:other",), True, None),
        (("update ::ConfigMap:other",), False, 2),
        ((), True, None),
        ((), False, 2),
    ],
)
def test_a_regular_check_that_finds_none_of_it_ends_the_count(
    found: tuple[str, ...], is_regular: bool, corrections: int | None
) -> None:
    after = judge(TWICE, *found, is_regular=is_regular)
    assert after.corrections == corrections
    assert after.corrected == (() if corrections is None else TWICE.corrected)


def test_more_objects_than_are_listed_count_as_the_same() -> None:
    listed = tuple(f"update ::ConfigMap:a{number}" for number in range(MAX_DRIFTED))
    full = replace(FOUND, corrected=listed)
    assert drift_record.is_same(full, ["update ::ConfigMap:other"])
    assert drift_record.is_same(TWICE, [f"update ::Secret:{one}" for one in range(21)])
    assert not drift_record.is_same(TWICE, [f"update ::Secret:{one}" for one in range(20)])
    assert not drift_record.is_same(FOUND, [f"update ::Secret:{one}" for one in range(21)])
    assert not drift_record.is_same(full, [])


def test_names_with_blanks_are_told_apart() -> None:
    found = replace(FOUND, corrected=("update :g:Role:say hi",))
    assert drift_record.is_same(found, ["delete :g:Role:say hi"])
    assert not drift_record.is_same(found, ["update :g:Role:or hi"])


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({}, True),
        ({"outcome": "Failed"}, False),
        ({"digest": "sha256:a"}, False),
        ({"values_hash": "other"}, False),
        ({"attempt": 0}, False),
        ({"attempt": None}, False),
    ],
)
def test_a_plan_of_what_is_deployed_is_a_check_too(change: dict[str, Any], wanted: bool) -> None:
    plan = replace(PlanStatus(**MADE_OF, outcome="Planned", attempt=1), **change)
    what = status(plan=plan)
    assert drift_record.is_judged_by(what, plan.attempt) is wanted
    assert not drift_record.is_judged_by(what.with_part(Baseline()), plan.attempt)


NOT_THE_VALUES = "the values aren't the ones that were deployed"
NOT_THE_SPEC = "the spec isn't the one that was deployed"


@pytest.mark.parametrize(
    ("what", "asked", "hashes", "said"),
    [
        (status(), spec(), ("s", "v"), None),
        (
            status(),
            spec(suspend=True),
            ("s", "v"),
            "nothing is compared while spec.suspend is true",
        ),
        (
            status(deployed=replace(THERE, digest=None)),
            spec(),
            ("s", "v"),
            "nothing is deployed yet",
        ),
        (
            status(attempted=replace(TRIED, outcome="Failed", version="1.2")),
            spec(),
            ("s", "v"),
            "the deploy of 1.2 hasn't succeeded",
        ),
        (status(), spec(), ("other", "v"), NOT_THE_SPEC),
        (status(deployed=replace(THERE, reference="other")), spec(), ("s", "v"), NOT_THE_SPEC),
        (status(), spec(), ("s", "other"), NOT_THE_VALUES),
        (status(), spec(), ("s", None), NOT_THE_VALUES),
    ],
)
def test_what_keeps_it_from_being_compared(
    what: BundleStatus, asked: BundleSpec, hashes: tuple[str, str | None], said: str | None
) -> None:
    why = drift_record.find_hindrance(what, asked, *hashes)
    reason = "Suspended" if asked.suspend else "NotAsDeployed"
    assert why == (None if said is None else drift_record.Hindrance(reason, said))


@given(st.lists(st.sets(st.integers(0, 60), min_size=1, max_size=40), min_size=1, max_size=60))
def test_corrections_end_whatever_comes_back(rounds: list[set[int]]) -> None:
    """Without a regular check that finds none of it: at most as many as there are objects."""
    what, made = status(), 0
    for found in rounds:
        names = sorted(f"update ::ConfigMap:a{number:03}" for number in found)
        what = what.with_part(judge(what.part(DriftStatus), *names))
        if drift_record.is_recurring(what):
            continue
        made += 1
        what = drift_record.record_corrected(what)
    assert made <= MAX_DRIFTED + drift_record.MOST_CORRECTIONS


CAN = status()
CANT: dict[str, tuple[BundleStatus, BundleSpec]] = {
    "detect": (CAN, spec(DriftMode.DETECT)),
    "off": (CAN, spec(DriftMode.OFF)),
    "nothing found": (status(drift=replace(FOUND, verdict=DriftVerdict.NOT_DRIFTED)), spec()),
    "unknown": (status(drift=replace(FOUND, verdict=DriftVerdict.UNKNOWN)), spec()),
    "not compared now": (status(drift=replace(FOUND, reason="Suspended")), spec()),
    "checked again": (
        status(drift=replace(FOUND, check=replace(CHECK, job="new", outcome="Running"))),
        spec(),
    ),
    "an attempt since": (status(attempted=replace(TRIED, attempt=2)), spec()),
    "other content": (status(baseline=replace(BASE, digest="sha256:a")), spec()),
    "checked again, found by a user": (
        status(
            plan=PlanStatus(job="plan-1", outcome="Planned", seal="x"),
            drift=replace(FOUND, found_job="plan-1", check=replace(CHECK, outcome="Running")),
        ),
        spec(),
    ),
    "its plan is made anew": (
        status(drift=replace(FOUND, check=replace(CHECK, outcome="Failed"))),
        spec(),
    ),
    "its plan is gone": (status(drift=replace(FOUND, found_job="older")), spec()),
    "no operations": (status(drift=replace(FOUND, check=replace(CHECK, seal=None))), spec()),
    "recurring": (status(drift=TWICE), spec()),
    "not trusted": (status(verification=Verification(verdict="NotTrusted")), spec()),
    "trust unknown": (status(verification=Verification(verdict="Unknown")), spec()),
}


def test_what_was_found_is_corrected() -> None:
    assert drift_record.is_correction_due(CAN, spec())
    trusted = CAN.with_part(Verification(verdict="Trusted"))
    assert drift_record.is_correction_due(trusted, spec())
    by_user = status(
        plan=PlanStatus(job="plan-1", outcome="Planned", seal="x", id="i"),
        drift=replace(FOUND, found_job="plan-1"),
    )
    assert drift_record.is_correction_due(by_user, spec())
    assert drift_record.record_correction(by_user, spec()).attempted.plan_job == "plan-1"


@pytest.mark.parametrize("why", CANT)
def test_nothing_else_is_corrected(why: str) -> None:
    assert not drift_record.is_correction_due(*CANT[why])


WANTED = deciding.DesiredDeploy(
    version="1.1", digest="sha256:b", values_hash="v", spec_hash="s", generation=0
)


@pytest.mark.parametrize(
    ("outcome", "correction", "action"),
    [
        (Outcome.SUCCEEDED, True, deciding.DeployAction.NOTHING),
        (Outcome.INTERRUPTED, True, deciding.DeployAction.NOTHING),
        (Outcome.INTERRUPTED, None, deciding.DeployAction.DEPLOY),
        (Outcome.FAILED, True, deciding.DeployAction.DEPLOY),
    ],
)
def test_a_correction_that_is_broken_off_isnt_deployed_again(
    outcome: Outcome, correction: bool | None, action: deciding.DeployAction
) -> None:
    attempted = replace(TRIED, **MADE_OF_ATTEMPT, outcome=outcome, correction=correction)
    decision = deciding.decide(status(attempted=attempted), WANTED, spec().retry, NOW)
    assert decision.action is action


MADE_OF_ATTEMPT: dict[str, Any] = {
    "version": "1.1",
    "digest": "sha256:b",
    "values_hash": "v",
    "spec_hash": "s",
    "generation": 0,
}
MANY = replace(FOUND, objects=tuple(f"update ::ConfigMap:a{n}" for n in range(7)))
DRIFTED, IN_SYNC, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
RESTORE = "; to restore what was deployed: copyrator reconcile bundle -n prod shop --force"
NOT_YET = "what is deployed hasn't been compared yet"


@pytest.mark.parametrize(
    ("what", "asked", "wanted", "said"),
    [
        (status(), spec(), (DRIFTED, "Drifted"), f"{EDITED} has drifted"),
        (
            status(),
            spec(DriftMode.DETECT),
            (DRIFTED, "Drifted"),
            f"{EDITED} has drifted{RESTORE}",
        ),
        (
            status(),  # its baseline isn't bound
            spec(approval=ApprovalMode.ALWAYS),
            (DRIFTED, "RenderedDifferently"),
            (
                f"{EDITED} has drifted, and the chart may render differently now than when it was "
                "deployed: a deploy that corrects it is planned, and waits for approval"
            ),
        ),
        (
            status(drift=TWICE),
            spec(),
            (DRIFTED, "DriftRecurring"),
            (
                f"{EDITED} has drifted again after 2 corrections, so something else changes the "
                "same objects each time: find it, or name them in spec.drift.ignore"
            ),
        ),
        (
            status(drift=TWICE),
            spec(DriftMode.DETECT),
            (DRIFTED, "Drifted"),
            f"{EDITED} has drifted{RESTORE}",
        ),
        (
            status(drift=TWICE, attempted=replace(TRIED, attempt=2)),  # not checked since
            spec(),
            (DRIFTED, "Drifted"),
            f"{EDITED} has drifted",
        ),
        (
            status(drift=replace(MANY, count=9)),
            spec(),
            (DRIFTED, "Drifted"),
            ", ".join(MANY.objects[:5]) + " and 4 more have drifted",
        ),
        (
            status(drift=replace(MANY, objects=MANY.objects[:6], count=None)),
            spec(),
            (DRIFTED, "Drifted"),
            ", ".join(MANY.objects[:5]) + " and 1 more have drifted",
        ),
        (
            status(drift=replace(FOUND, verdict=DriftVerdict.NOT_DRIFTED)),
            spec(),
            (IN_SYNC, "InSync"),
            "the objects of the release are as they were deployed",
        ),
        (
            status(
                drift=replace(FOUND, verdict=DriftVerdict.NOT_DRIFTED),
                baseline=replace(BASE, unproven=True),
            ),
            spec(),
            (IN_SYNC, "InSync"),
            (
                "nothing has drifted since 2026-11-23T12:00:00Z; what had drifted before isn't "
                "seen, as the deploy was checked later than 15 minutes after its end"
            ),
        ),
        (
            status(drift=replace(FOUND, verdict=DriftVerdict.UNKNOWN)),
            spec(),
            (UNKNOWN, "Unchecked"),
            "the last check had no result",
        ),
        (
            status(drift=replace(FOUND, verdict=DriftVerdict.UNKNOWN, message="no")),
            spec(),
            (UNKNOWN, "Unchecked"),
            "no",
        ),
        (
            status(drift=replace(FOUND, reason="PlanFailed", message="no")),
            spec(),
            (UNKNOWN, "PlanFailed"),
            "no",
        ),
        (status(drift=replace(FOUND, reason="PlanFailed")), spec(), (UNKNOWN, "PlanFailed"), ""),
        (status(baseline=Baseline()), spec(), (UNKNOWN, "Unchecked"), NOT_YET),
        (status(drift=DriftStatus()), spec(), (UNKNOWN, "Unchecked"), NOT_YET),
    ],
)
def test_the_condition(
    what: BundleStatus, asked: BundleSpec, wanted: tuple[ConditionStatus, str], said: str
) -> None:
    found = drifted_condition(what, asked)
    assert found is not None
    assert (found.status, found.reason, found.message) == (*wanted, said)
    assert drifted_condition(what, spec(DriftMode.OFF)) is None


@pytest.mark.parametrize(
    ("ignored", "left"),
    [(("ConfigMap", "app"), 1), (("ConfigMap", "*"), 0), (("Secret", "*"), 2)],
)
def test_what_is_ignored_later_has_not_drifted(ignored: tuple[str, str], left: int) -> None:
    drift = replace(FOUND, objects=("create ::ConfigMap:b", EDITED), count=2)
    asked = spec(DriftMode.DETECT, Ignored(ignored[0], Globs((ignored[1],))))
    after = drift_record.remove_ignored(status(drift=drift), asked).part(DriftStatus)
    assert (len(after.objects), after.count or 0) == (left, left)
    assert (after.verdict == DriftVerdict.DRIFTED) is (left > 0)
    if not left:
        assert after == replace(
            drift, objects=(), count=None, verdict="NotDrifted", since=None, found_job=None
        )
    more = replace(drift, count=30)
    assert drift_record.remove_ignored(status(drift=more), asked).part(DriftStatus) == more


@pytest.mark.parametrize(
    ("since", "wanted"), [(timedelta(seconds=1), False), (HOUR, True), (-HOUR, False)]
)
def test_a_check_is_regular_if_a_time_of_the_bundle_has_passed(
    since: timedelta, wanted: bool
) -> None:
    began = REGULAR - timedelta(seconds=2) + since
    ended = replace(TRIED, finished_at=format_time(REGULAR - timedelta(seconds=2)))
    what = status(attempted=ended)
    assert drift_record.is_regular_check(what, spec(), UID, format_time(began)) is wanted
    assert drift_record.is_regular_check(replace(what, attempted=Attempted()), spec(), UID, "x")
    assert drift_record.is_regular_check(what, spec(), UID, None)
    assert drift_record.is_regular_check(
        replace(what, attempted=Attempted()), spec(), UID, format_time(began)
    )


def test_a_check_has_the_id_of_a_plan_of_the_same() -> None:
    begun = plan_record.record_plan(status(), DEPLOY, TARGET, "plan-1", NOW)
    rendered = replace(PLAN, plan=replace(PLAN.plan, render="1" * 64))
    plan = deploy_record.record_result(begun, rendered, spec(), NOW).part(PlanStatus)
    check = drift_record.record_check_result(
        plan_record.record_plan(status(), drift_record.CHECK, TARGET, "c", NOW),
        rendered,
        NOW,
        bound=False,
    )
    assert check.part(DriftStatus).check.id == plan.id


def test_a_baseline_ends_what_was_known_of_drift() -> None:
    after = drift_record.set_baseline(status(drift=TWICE), NOW + HOUR)
    assert after.part(DriftStatus) == DriftStatus(
        check=CHECK, checked_at=format_time(NOW + HOUR), verdict="NotDrifted", attempt=1
    )
    assert (
        drift_record.set_baseline(status(deployed=replace(THERE, time=None)), NOW)
        .part(Baseline)
        .unproven
    )


def test_a_check_that_failed_tells_nothing() -> None:
    after = check_fails(status(drift=TWICE))
    assert after.part(DriftStatus) == replace(
        TWICE,
        check=replace(CHECK, outcome="Failed", reason="PlanFailed", message="no"),
        verdict="Unknown",
        reason="PlanFailed",
        message="no",
        objects=(),
        count=None,
        found_job=None,
    )


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        (spec(), status()),
        (
            spec(DriftMode.OFF),
            status(drift=DriftStatus(check=DriftCheck(number=1)), baseline=Baseline()),
        ),
        (
            spec(DriftMode.OFF, approval=ApprovalMode.ON_RISK),
            status(drift=DriftStatus(check=CHECK)),
        ),
    ],
)
def test_what_nobody_asks_for_any_more_goes(asked: BundleSpec, left: BundleStatus) -> None:
    assert drift_record.switch_off_drift(status(), asked) == left


@pytest.mark.parametrize(("count", "more"), [(1, ""), (2, " and 1 more"), (3, " and 2 more")])
def test_what_cant_be_compared_is_named_with_the_remedy(count: int, more: str) -> None:
    found = judge(FOUND, *(f"apply ::ConfigMap:a{number}" for number in range(count)))
    assert found.reason == "BlindApply"
    assert found.message == (
        f"apply ::ConfigMap:a0{more} can't be compared: their dry runs were refused, unlike "
        "right after the deploy. The Job's log says why; check the permissions of its service "
        "account"
    )


def test_a_correction_that_succeeded_is_counted_with_its_objects() -> None:
    once = drift_record.record_corrected(status()).part(DriftStatus)
    assert once == replace(FOUND, corrections=1, corrected=FOUND.objects)
    again = drift_record.record_corrected(status(drift=replace(once, objects=("update ::Pod:x",))))
    assert (again.part(DriftStatus).corrections, again.part(DriftStatus).corrected) == (
        2,
        (EDITED, "update ::Pod:x"),
    )


def test_an_attempt_that_needed_an_approval_is_of_what_was_approved() -> None:
    """A check since then, and what it found, was not."""
    approved = PlanStatus(job="plan-1", outcome="Planned", id="a", by="ann", seal="x")
    asked = spec(approval=ApprovalMode.ALWAYS)
    bound, checked = replace(BASE, bound=True), replace(CHECK, id="i")
    for drift, baseline in ((replace(FOUND, differs=True), bound), (FOUND, BASE)):
        what = status(plan=approved, drift=replace(drift, check=checked), baseline=baseline)
        assert drift_record.needs_approval(what, asked)
        assert not drift_record.needs_approval(what, spec())
        attempted = drift_record.record_correction(what, asked).attempted
        assert (attempted.plan, attempted.approved_by) == ("a", "ann")
    what = status(plan=approved, drift=replace(FOUND, check=checked), baseline=bound)
    assert not drift_record.needs_approval(what, asked)
    assert drift_record.record_correction(what, asked).attempted.plan == "i"


START = datetime(2026, 1, 1, 12, 0, 0, 500_000, tzinfo=UTC)


@given(
    uid=st.text(min_size=1, max_size=36),
    interval=st.integers(900, 30 * 24 * 3600).map(float),
    moment=st.floats(1.5e9, 4e9).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
)
def test_checks_are_in_whole_seconds_one_interval_apart(
    uid: str, interval: float, moment: datetime
) -> None:
    rhythm = check_rhythm(uid, interval)
    first = rhythm.after(moment)
    assert moment < first <= moment + timedelta(seconds=interval)
    assert first.microsecond == 0
    assert rhythm.after(first) == first + timedelta(seconds=interval)
    assert rhythm.after(first - timedelta(microseconds=1)) == first
    assert rhythm.count(moment, first) == 1
    assert rhythm.count(first, first) == 0
    assert rhythm.count(first, first - timedelta(hours=1)) == 0
    assert rhythm.count(moment, first + timedelta(seconds=3 * interval)) == 4


def test_the_checks_of_three_hundred_bundles_are_spread_over_the_interval() -> None:
    """No quarter of a minute of fifteen has more than a few of them."""
    at = [check_rhythm(f"uid-{number}", 900.0).after(START) for number in range(300)]
    quarters = [int((one - START).total_seconds() // 15) for one in at]
    assert max(map(quarters.count, quarters)) <= 15


def test_an_upgrade_moves_no_check() -> None:
    assert check_rhythm("uid-1", 3600.0).phase == 3495


def test_an_interval_of_less_than_a_second_is_one() -> None:
    assert [check_rhythm("uid-1", interval).interval for interval in (0.0, 1.5)] == [1, 1]


if TYPE_CHECKING:
    from copyrator.bundles.engine.context import Context


NONE = cast("Context", None)
FEATURES = Features([ApprovalFeature(NONE), PreviewFeature(NONE), DriftFeature(NONE)], Memories())


def needed_jobs(status: BundleStatus) -> set[str | None]:
    return {*FEATURES.needed_jobs(status)} - {None}


@pytest.mark.parametrize(
    ("plan", "attempted", "jobs"),
    [
        (PLANNED, Attempted(), {"shop-plan-1"}),
        (replace(PLANNED, outcome="Running"), Attempted(), {"shop-plan-1"}),
        (replace(PLANNED, outcome="Failed"), Attempted(job="d", plan_job="shop-plan-1"), set()),
        (
            replace(PLANNED, approved=ApprovedPlan(job="shop-plan-0")),
            Attempted(outcome="Running", job="shop-deploy-1", plan_job="shop-plan-x"),
            {"shop-plan-0", "shop-plan-1", "shop-deploy-1", "shop-plan-x"},
        ),
    ],
)
def test_secrets_are_kept_for_the_jobs_that_need_them(
    plan: PlanStatus, attempted: Attempted, jobs: set[str]
) -> None:
    status = BundleStatus(attempted=attempted).with_part(plan).with_part(Baseline(job="base"))
    assert needed_jobs(status) == jobs | {"base"}


@pytest.mark.parametrize(
    ("outcome", "jobs"), [("Running", {"preview", "check", "found"}), ("Planned", {"found"})]
)
def test_secrets_of_previews_and_checks_are_kept_while_they_run(
    outcome: str, jobs: set[str]
) -> None:
    status = (
        BundleStatus()
        .with_part(PreviewPlan(job="preview", outcome=outcome))
        .with_part(DriftStatus(check=DriftCheck(job="check", outcome=outcome), found_job="found"))
    )
    assert needed_jobs(status) == jobs


def test_drift_is_off_unless_it_is_asked_for_and_ignores_by_kind_and_name() -> None:
    spec = parsed(bundle())
    assert spec.part(DriftSpec) == DriftSpec()
    assert not spec.uses(DriftSpec)
    ignore = [{"kind": "Deployment", "name": "web-*"}, {"kind": "Secret"}]
    drift = {"mode": "Correct", "interval": "15m", "ignore": ignore}
    spec = parsed(bundle(drift=drift))
    assert (spec.part(DriftSpec).mode, spec.part(DriftSpec).interval) == (DriftMode.CORRECT, 900.0)
    (first, second) = spec.part(DriftSpec).ignore
    assert (first.kind, first.names.matches("web-1"), first.names.matches("api")) == (
        "Deployment",
        True,
        False,
    )
    assert second.names.matches("anything")
