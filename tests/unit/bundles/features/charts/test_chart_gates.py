"""The gates of charts, and which Bundles they concern."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.replacing import replace
from tests.unit.bundles.job_samples import ELSEWHERE, check_golden, order
from tests.unit.bundles.test_planned_attempts import order_of

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.feature import is_used_in
from copyrator.bundles.engine.gate import (
    PASSED,
    Candidate,
    Facts,
    Findings,
    Gate,
    Gates,
    Occasion,
    Passed,
    Refused,
    Verdict,
    Waiting,
)
from copyrator.bundles.features.charts.facts import ChartFacts
from copyrator.bundles.features.charts.feature import ChartsFeature
from copyrator.bundles.features.charts.gates import PLAIN, VENDORED, FoundChart
from copyrator.bundles.jobs.checks import checked_deploy
from copyrator.bundles.jobs.job import build_deploy_job
from copyrator.bundles.plans.fields import ApprovalMode, ApprovalSpec

SPEC = BundleSpec(namespace="a", name="b", registry="r", repo="x", project_namespace="a")
APPROVED = SPEC.with_part(ApprovalSpec(ApprovalMode.ALWAYS))
DIGEST = "sha256:" + "1" * 64


def judge(gate: Gate, chart: ChartFacts | Waiting | None) -> Verdict:
    found = Findings(() if chart is None else (FoundChart(chart),))
    facts = Facts(BundleStatus(), Occasion.NEW_DIGEST, findings=found)
    return gate.judge(SPEC, Candidate("1.0.0", DIGEST), facts, datetime(2026, 11, 24, tzinfo=UTC))


@pytest.mark.parametrize("gate", [VENDORED, PLAIN], ids=["vendored", "plain"])
def test_a_chart_that_is_not_read_yet_waits(gate: Gate) -> None:
    unread = f"the chart of {DIGEST} hasn't been read yet"
    assert judge(gate, None) == Waiting("RegistryUnreachable", unread)
    failed = Waiting("RateLimited", "429")
    assert judge(gate, failed) is failed


@pytest.mark.parametrize("gate", [VENDORED, PLAIN], ids=["vendored", "plain"])
def test_a_chart_that_has_nothing_of_its_kind_passes(gate: Gate) -> None:
    found = ChartFacts(unbound=("a",), unplain=("a",), unvendored=("a",))
    others = replace(found, unvendored=()) if gate is VENDORED else replace(found, unplain=())
    assert judge(gate, others) is PASSED


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("a", "a in"),
        ("abcde", "a, b, c, d, e in"),
        ("abcdef", "a, b, c, d, e and 1 more in"),
        ("abcdefg", "a, b, c, d, e and 2 more in"),
    ],
)
def test_a_chart_that_lacks_dependencies_is_refused_for_good(missing: str, said: str) -> None:
    found = judge(VENDORED, ChartFacts(unvendored=tuple(missing)))
    assert isinstance(found, Refused)
    assert (found.reason, found.is_retried) == ("DependenciesNotVendored", False)
    assert found.message == (
        f"the chart of {DIGEST} lacks {said} charts/: werf would download that at each run, "
        "whatever was signed or approved; vendor it: run `werf helm dependency build` (or `helm "
        "dependency update`) in the chart's directory, commit its charts/ and publish again"
    )


def test_a_chart_that_may_be_read_in_several_ways_is_refused_for_good() -> None:
    found = judge(PLAIN, ChartFacts(unplain=tuple("abcdef")))
    assert isinstance(found, Refused)
    assert (found.reason, found.is_retried) == ("ChartNotPlain", False)
    assert found.message.startswith(f"the chart of {DIGEST} may be read in several ways")
    assert ": a; b; c; d; e; and 1 more; then publish it again" in found.message


def test_a_chart_that_cannot_be_judged_passes_to_its_job_but_nobody_can_approve_it() -> None:
    unreadable = ChartFacts(unreadable="it has more than 4 MiB")
    assert judge(VENDORED, unreadable) == Passed(
        f"the chart of {DIGEST} can't be judged: it has more than 4 MiB; its Job checks it instead"
    )
    found = judge(PLAIN, unreadable)
    assert isinstance(found, Refused)
    assert (found.reason, found.is_retried) == ("ChartNotPlain", False)
    assert f"the chart of {DIGEST} can't be judged, so nobody can approve it" in found.message
    assert ": it has more than 4 MiB; publish it with" in found.message


@pytest.mark.parametrize(
    ("spec", "signed", "names"),
    [
        (SPEC, None, set()),
        (SPEC, False, set()),
        (SPEC, True, {"vendored"}),
        (replace(SPEC, is_gated=True), False, {"vendored"}),
        (APPROVED, None, {"vendored", "plain"}),
    ],
)
def test_which_gates_concern_a_bundle(
    spec: BundleSpec, signed: bool | None, names: set[str]
) -> None:
    gate = Gate("signature", lambda _: signed, frozenset(Occasion), lambda *_: PASSED, vouches=True)
    context: Any = SimpleNamespace(gates=Gates(version=() if signed is None else (gate,)))
    context.is_gated = partial(Context.is_gated, context)
    charts = ChartsFeature(context)
    assert {gate.name for gate in charts.gates if gate.concerns(spec)} == names
    assert is_used_in(charts, spec) == bool(names)


GOLDEN = Path(__file__).parent / "golden"
CHECKED = {
    "values": order(command=checked_deploy),
    "kubeconfig": order(command=checked_deploy, **ELSEWHERE),
}


@pytest.mark.parametrize("name", CHECKED)
def test_the_job_that_deploys_for_a_gated_bundle_without_a_plan(name: str) -> None:
    check_golden(GOLDEN, f"checked-{name}", build_deploy_job(CHECKED[name]))


@pytest.mark.parametrize(("is_plain", "is_gated"), [(True, True), (False, True), (False, False)])
def test_only_a_gated_bundle_is_checked_also_one_that_only_the_policy_gates(
    is_plain: bool, is_gated: bool
) -> None:
    context: Any = SimpleNamespace(is_gated=lambda spec: spec.is_gated)
    made = order_of(None, ChartsFeature(context), is_plain=is_plain, is_gated=is_gated)
    assert made.command == (checked_deploy if is_gated else None)
