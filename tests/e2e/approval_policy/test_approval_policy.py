"""The approval policy on a real API server: each sentence of docs/trust.md, refused and allowed."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.e2e.approval_policy.conftest import (
    PLAN,
    Guarded,
    Person,
    bundle,
    decision,
    path_of,
)
from tests.e2e.operator_process import until
from tests.e2e.person import RefusedError

App = Callable[..., str]
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
DECISIONS = [{"approved_plan": PLAN}, {"rejected_plan": PLAN}, {}]
"""What is set beside approved-by."""


def test_the_api_server_finds_no_fault_with_the_expressions(guarded: Guarded):
    def checked() -> dict[str, Any]:
        status: dict[str, Any] = guarded.api.get(f"{POLICIES}/{guarded.policy}").get("status") or {}
        return status if "observedGeneration" in status else {}

    status = until(checked, "the policy is checked")
    assert status["typeChecking"] == {}, "the expressions have faults"


# --- a new value of approved-plan, rejected-plan or approved-by needs the verb approve ------------


@pytest.mark.parametrize("decides", DECISIONS, ids=str)
def test_a_new_value_needs_the_verb_approve(app: App, editor: Person, approver, guarded, decides):
    where = app("Always")
    said = rf"Bundle {where}: editor may not approve or reject its plans .*approved-by\): remove "
    with pytest.raises(RefusedError, match=said) as error:
        editor.annotate(where, **decides, approved_by="editor")
    assert "ask somebody who has the verb approve on bundles.operator.werf.dev" in str(error.value)
    assert guarded.annotations(where) == {}
    approver.annotate(where, **decides, approved_by="approver")
    assert guarded.annotations(where) == decision(**decides, approved_by="approver")


@pytest.mark.parametrize("decides", DECISIONS, ids=str)
def test_on_create_every_value_is_new(team: str, editor: Person, approver: Person, decides):
    made = bundle(f"{team}/app", "Always", **decides, approved_by="editor")
    with pytest.raises(RefusedError, match="editor may not approve or reject its plans"):
        editor.create(made)
    editor.create(bundle(f"{team}/app", "Always"))
    approver.create(bundle(f"{team}/other", "Always", **decides, approved_by="approver"))


def test_a_changed_value_is_new_and_one_that_stays_is_not(decided: str, editor, guarded: Guarded):
    with pytest.raises(RefusedError, match=r"set operator.werf.dev/approved-plan\)"):
        editor.annotate(decided, approved_plan="fedcba9876543210")
    with pytest.raises(RefusedError, match=r"set operator.werf.dev/rejection-reason\)"):
        editor.annotate(decided, rejection_reason="so it says")
    with pytest.raises(RefusedError, match="editor may not approve or reject"):
        editor.annotate(decided, approved_by="editor")
    editor.annotate(decided, approved_plan=PLAN, approved_by="approver", requestedAt="now")
    editor.patch(decided, {"spec": {"version": "1.0.1"}})
    assert guarded.annotations(decided) == decision(approved_plan=PLAN, approved_by="approver")


def test_the_verb_counts_in_its_own_namespace_only(guarded: Guarded, app: App, editor: Person):
    where = app("Always")
    guarded.person("editor", guarded.home, "copyrator-approver")
    with pytest.raises(RefusedError, match="editor may not approve or reject"):
        editor.approves(where)


def test_the_verb_can_be_given_for_one_bundle(guarded: Guarded, team: str, editor: Person):
    for name in ("one", "two"):
        editor.create(bundle(f"{team}/{name}", "Always"))
    rule = {"apiGroups": ["operator.werf.dev"], "resources": ["bundles"], "verbs": ["approve"]}
    guarded.role(f"one-{team}", rule | {"resourceNames": ["one"]})
    guarded.person("editor", team, f"one-{team}")
    editor.approves(f"{team}/one")
    with pytest.raises(RefusedError, match="editor may not approve or reject"):
        editor.approves(f"{team}/two")


def test_kubernetes_own_roles_may_not_approve(guarded: Guarded, team: str, app: App):
    where = app("Always")
    for role in ("edit", "admin"):
        somebody = guarded.person(f"{role}-{team}", team, "copyrator-deployer", role)
        with pytest.raises(RefusedError, match="may not approve or reject"):
            somebody.approves(where)
    guarded.admin.approves(where)


# --- and approved-by is the name of the user who decides ------------------------------------------


def test_nobody_approves_in_somebody_elses_name(app: App, approver: Person, guarded: Guarded):
    where = app("Always")
    said = f'Bundle {where}: the annotation operator.werf.dev/approved-by is "boss", but approver'
    with pytest.raises(RefusedError, match=said):
        approver.annotate(where, approved_plan=PLAN, approved_by="boss")
    with pytest.raises(RefusedError, match="approved-by is missing, but approver decides"):
        approver.annotate(where, approved_plan=PLAN)
    with pytest.raises(RefusedError, match=r'is "boss", but approver decides: .* or remove it'):
        approver.annotate(where, rejected_plan=PLAN, approved_by="boss")
    with pytest.raises(RefusedError, match="approved-by is missing, but approver decides"):
        approver.annotate(where, rejected_plan=PLAN, approved_by="")
    with pytest.raises(RefusedError, match='approved-by is "boss"'):
        approver.annotate(where, approved_by="boss")
    assert guarded.annotations(where) == {}


def test_a_second_approver_doesnt_decide_in_the_firsts_name(decided: str, team, guarded: Guarded):
    second = guarded.person("second", team, "copyrator-approver")
    other = "fedcba9876543210"
    with pytest.raises(RefusedError, match='approved-by is "approver", but second decides'):
        second.annotate(decided, approved_plan=other)
    second.annotate(decided, approved_plan=other, approved_by="second")


# --- a rejection can always be given, and wins ----------------------------------------------------


def test_a_rejection_needs_no_name_but_has_no_other(decided: str, team, editor, guarded: Guarded):
    second = guarded.person("second", team, "copyrator-approver")
    with pytest.raises(RefusedError, match='approved-by is "approver", but second decides'):
        second.annotate(decided, rejected_plan=PLAN)
    with pytest.raises(RefusedError, match=r"set operator.werf.dev/rejected-plan\)"):
        editor.annotate(decided, rejected_plan=PLAN, approved_by=None)
    second.annotate(decided, rejected_plan=PLAN, approved_by=None)
    assert guarded.annotations(decided) == decision(approved_plan=PLAN, rejected_plan=PLAN)
    second.annotate(decided, rejected_plan="fedcba9876543210", approved_by="second")
    second.annotate(decided, rejected_plan=PLAN)


def test_what_is_rejected_cant_be_approved_in_one_write_nor_later(
    app: App, approver: Person, guarded: Guarded, team: str
):
    where = app("Always")
    said = f"Bundle {where}: the annotation operator.werf.dev/rejected-plan rejects the plan {PLAN}"
    both = {"approved_plan": PLAN, "rejected_plan": PLAN, "approved_by": "approver"}
    with pytest.raises(RefusedError, match=said):
        approver.annotate(where, **both)
    with pytest.raises(RefusedError, match=r"rejects the plan .* would approve: remove that"):
        approver.create(bundle(f"{team}/new", "Always", **both))
    approver.annotate(where, rejected_plan=PLAN)
    with pytest.raises(RefusedError, match=said):
        approver.approves(where)
    with pytest.raises(RefusedError, match=said):
        guarded.admin.approves(where)
    approver.annotate(where, approved_plan="fedcba9876543210", approved_by="approver")
    approver.annotate(where, rejected_plan=None, approved_plan=PLAN)
    assert guarded.annotations(where) == decision(approved_plan=PLAN, approved_by="approver")


# --- withdrawing it needs the verb approve until it is recorded -----------------------------------

OTHER = "fedcba9876543210"
WAITS = {"id": PLAN, "outcome": "Planned"}
REJECTED = WAITS | {"decision": "Rejected"}
ANEW = {"number": 2, "outcome": "Running"}
UNRECORDED: list[tuple[dict[str, Any], bool]] = [
    (WAITS, False),
    (WAITS, True),
    (WAITS | {"decision": "Approved"}, True),
    (WAITS | {"approvalCleared": True, "rejected": {"id": PLAN}}, False),
    # It was approved anew after a rejection, and rejected anew.
    (REJECTED | {"approvalCleared": True}, True),
    # It is made anew, so that its approval may carry over, or its ID may return.
    (ANEW, False),
    (ANEW | {"approved": {"id": PLAN}}, False),
    (ANEW | {"outcome": "Failed", "rejected": {"id": OTHER}}, True),
    # It may return, and is approved.
    (WAITS | {"id": OTHER}, True),
    (WAITS | {"id": OTHER, "decision": "Approved", "approved": {"id": PLAN}}, False),
    ({"number": 2}, True),
]
RECORDED: list[tuple[dict[str, Any] | None, bool]] = [
    (None, False),
    ({"number": 2, "rejections": 1}, False),
    (REJECTED, False),
    (REJECTED, True),
    (REJECTED | {"approvalCleared": False}, True),
    (REJECTED | {"approvalCleared": True}, False),
    (WAITS | {"id": OTHER}, False),
    (WAITS | {"id": OTHER, "approved": {"id": OTHER}}, False),
    (WAITS | {"id": OTHER, "rejected": {"id": PLAN}}, True),
    (ANEW | {"rejected": {"id": PLAN}}, True),
]
"""Of the status the plan, and whether the annotation of an approval is there, too."""


@pytest.fixture
def rejected(app: App, approver: Person, guarded: Guarded) -> Callable[..., str]:
    """Makes a Bundle that is approved, perhaps, and then rejected, with this plan in its status."""

    def make(plan: dict[str, Any] | None, is_approved: bool) -> str:
        where = app("Always")
        if is_approved:
            approver.approves(where)
        approver.annotate(where, rejected_plan=PLAN)
        guarded.operator.writes_status(where, plan=None)
        guarded.operator.writes_status(where, plan=plan)
        return where

    return make


@pytest.mark.parametrize(("plan", "is_approved"), UNRECORDED, ids=str)
def test_a_rejection_stays_until_the_operator_has_recorded_it(
    rejected: App, editor: Person, approver: Person, guarded: Guarded, plan, is_approved
):
    where = rejected(plan, is_approved)
    before = guarded.annotations(where)
    said = f"Bundle {where}: editor may not remove or change the annotation .*rejected-plan, "
    for value in (None, OTHER):
        with pytest.raises(RefusedError, match=said if value is None else "may not approve or"):
            editor.annotate(where, rejected_plan=value)
    stays = bundle(where, "Always", **({"approved_plan": PLAN} if is_approved else {}))
    with pytest.raises(RefusedError, match=said):
        editor.replace(stays)
    editor.annotate(where, requestedAt="now", approved_by=None)
    assert guarded.annotations(where) == {
        key: value for key, value in before.items() if not key.endswith("approved-by")
    }
    approver.annotate(where, rejected_plan=None)


@pytest.mark.parametrize(("plan", "is_approved"), RECORDED, ids=str)
def test_a_rejection_that_is_recorded_may_be_removed(rejected: App, editor, plan, is_approved):
    editor.annotate(rejected(plan, is_approved), rejected_plan=None)


@pytest.mark.parametrize("plan", [{"number": 2}, WAITS | {"id": OTHER}], ids=str)
def test_a_rejection_of_another_plan_is_removed_together_with_its_approval(
    rejected: App, editor: Person, guarded: Guarded, plan
):
    where = rejected(plan, True)
    with pytest.raises(RefusedError, match=r"because .*approved-plan has its value: remove that,"):
        editor.annotate(where, rejected_plan=None)
    editor.replace(bundle(where, "Always"))
    assert guarded.annotations(where) == {}


# --- removing the others is free ------------------------------------------------------------------


def test_an_editor_may_remove_them(decided: str, editor: Person, guarded: Guarded):
    editor.annotate(decided, approved_by=None)
    editor.annotate(decided, approved_plan=None)
    assert guarded.annotations(decided) == {}


def test_a_gitops_account_applies_its_manifest_again(guarded: Guarded, team: str, approver: Person):
    """Server-side apply leaves other managers' annotations; a replace takes them away."""
    gitops = guarded.person("gitops", team, "copyrator-deployer")
    where = f"{team}/app"
    manifest = bundle(where, "Always")
    gitops.apply(manifest, manager="argocd")
    approver.approves(where)
    gitops.apply(manifest, manager="argocd")
    assert guarded.annotations(where) == decision(approved_plan=PLAN, approved_by="approver")
    gitops.replace(manifest)
    assert guarded.annotations(where) == {}
    deciding = bundle(where, "Always", approved_plan=PLAN, approved_by="gitops")
    with pytest.raises(RefusedError, match="gitops may not approve or reject"):
        gitops.apply(deciding, manager="argocd", force="true")


# --- lowering or removing spec.approval.mode needs the verb approve -------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [("Always", "OnRisk"), ("Always", "Never"), ("OnRisk", "Never"), ("OnRisk", None)],
)
def test_lowering_the_mode_needs_the_verb_approve(
    app: App, forger: Person, approver: Person, guarded: Guarded, before, after
):
    where = app(before)
    said = f"Bundle {where}: forger may not lower spec.approval.mode from {before} to "
    with pytest.raises(RefusedError, match=f"{said}{after or 'Never'}: leave it at {before}, or"):
        forger.sets_mode(where, after)
    with pytest.raises(RefusedError, match=said):
        forger.replace(bundle(where, after))
    assert guarded.get(where)["spec"]["approval"]["mode"] == before
    approver.sets_mode(where, after)


@pytest.mark.parametrize(
    ("before", "after"), [(None, "OnRisk"), ("Never", "OnRisk"), ("OnRisk", "Always")]
)
def test_raising_it_needs_nothing_nor_does_another_field(app: App, editor, before, after):
    where = app(before)
    editor.sets_mode(where, after)
    editor.patch(where, {"spec": {"approval": {"expires": "720h"}}})


def test_a_new_bundle_may_have_any_mode_also_in_place_of_another_one(app: App, editor: Person):
    """Therefore only bundles.requireApproval binds everybody."""
    where = app("Always")
    editor.delete(path_of(where))
    editor.create(bundle(where))


# --- all of the status but forceUpdate is the operator's ------------------------------------------

FORGED: list[dict[str, Any]] = [
    {"plan": {"id": PLAN, "outcome": "Planned", "decision": "Approved", "by": "boss"}},
    {"plan": None},
    {"ready": 0},
    {"forceUpdate": 1, "gates": []},
]


@pytest.mark.parametrize("status", FORGED, ids=str)
def test_a_status_cant_be_forged(app: App, forger: Person, guarded: Guarded, status):
    where = app("Always")
    before = guarded.get(where)["status"]
    (field,) = status.keys() - {"forceUpdate"}
    said = rf"Bundle {where}: only the operator may change its status \(here {field}\)"
    for somebody in (forger, guarded.admin):
        with pytest.raises(RefusedError, match=said):
            somebody.writes_status(where, **status)
    assert guarded.get(where)["status"] == before
    guarded.operator.writes_status(where, **status)


def test_a_status_cant_be_removed(app: App, forger: Person, guarded: Guarded):
    where = app()
    remove = [{"op": "remove", "path": "/status"}]
    with pytest.raises(RefusedError, match=r"\(here (plan, ready|ready, plan)\)"):
        forger.ask("PATCH", f"{path_of(where)}/status", remove, kind="json-patch+json")
    body = guarded.get(where)
    del body["status"]
    with pytest.raises(RefusedError, match="only the operator may change its status"):
        forger.replace(body, "/status")


def test_force_update_is_everybodys_who_may_write_the_status(app: App, forger, editor, team):
    where = app()
    forger.writes_status(where, forceUpdate=1)
    forger.writes_status(where, forceUpdate=None)
    editor.create(bundle(f"{team}/new"))
    forger.writes_status(f"{team}/new", forceUpdate=1)
    with pytest.raises(RefusedError, match="forbidden: User"):
        editor.writes_status(where, forceUpdate=1)


def test_a_status_of_a_megabyte_is_compared_within_the_budget_of_the_expressions(
    app: App, forger: Person, guarded: Guarded
):
    where = app()
    history = [{"digest": f"sha256:{n:064}", "plan": f"{n:0100000}"} for n in range(10)]
    guarded.operator.writes_status(where, history=history)
    assert len(json.dumps(guarded.get(where))) > 1_000_000
    forger.writes_status(where, forceUpdate=1)
    with pytest.raises(RefusedError, match=r"\(here ready\)"):
        forger.writes_status(where, ready=0)


# --- the operator is never stopped ----------------------------------------------------------------


def test_the_operators_own_decision_counts_no_more_than_anybodys(app: App, guarded: Guarded):
    """A rule that renders a Bundle must not approve by the operator's permissions."""
    where = app("Always")
    with pytest.raises(RefusedError, match="may not approve or reject"):
        guarded.operator.approves(where)
    with pytest.raises(RefusedError, match=r"may not lower spec\.approval\.mode"):
        guarded.operator.sets_mode(where, "Never")
