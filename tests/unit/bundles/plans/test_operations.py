"""Operations, their risk, the ID of a plan, and what an approval covers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.bundles.plans.fields import OperationCounts, PlanStatus
from copyrator.bundles.plans.operations import (
    Operation,
    OperationType,
    Plan,
    RenderedObjects,
    all_planned,
    count_all,
    covers,
    describe_counts,
    effects,
    has_further_objects,
    list_risky,
    read_objects,
    read_operation,
    read_plan,
    read_planned,
    read_revision,
    risky,
)
from copyrator.bundles.plans.record import id_of

OBJECTS = ("::ConfigMap:a", "::Pod:a", ":apps:Deployment:a", "ns:apps:Deployment:a")
operations = st.builds(
    lambda type_, rest: op(f"{type_} {rest}"),
    st.sampled_from(OperationType),
    st.sampled_from(OBJECTS),
)


def op(line: str) -> Operation:
    found = read_operation(line)
    assert found is not None
    return found


def ops(*lines: str) -> tuple[Operation, ...]:
    return tuple(map(op, lines))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("create ::ConfigMap:a", Operation(OperationType.CREATE, "", "", "ConfigMap", "a")),
        (
            "apply other:apps:Deployment:shop",
            Operation(OperationType.APPLY, "other", "apps", "Deployment", "shop"),
        ),
        (
            "delete :rbac.authorization.k8s.io:ClusterRole:system:node: [x]",
            Operation(
                OperationType.DELETE,
                "",
                "rbac.authorization.k8s.io",
                "ClusterRole",
                "system:node: [x]",
            ),
        ),
    ],
)
def test_the_id_is_split_at_the_first_three_colons(line: str, expected: Operation) -> None:
    assert read_operation(line) == expected
    assert str(expected) == line


@pytest.mark.parametrize(
    "line",
    [
        "",
        "create",
        "create ",
        "create a",
        "create :Pod:a",
        "create ::Pod:",
        "Create ::Pod:a",
        "destroy ::Pod:a",
        "track-readiness ::Pod:a",
        " create ::Pod:a",
        "create  ::Pod:a",
        "create ::Pod:a\n",
        'create ::Pod:"',
        "create ::Pod:\\",
        "create ::Pod:a/b",
        "create ::Pod:\x7f",
        "create ::Pod:ä",
        "create NS::Pod:a",
        "create ::1:a",
    ],
)
def test_anything_else_is_no_operation(line: str) -> None:
    assert read_operation(line) is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("revision 1", 1),
        ("revision 2147483647", 2**31 - 1),
        ("revision 2147483648", None),
        ("revision 9999999999", None),
        ("revision 0", None),
        ("revision 01", None),
        ("revision -1", None),
        ("revision \u0661", None),
        ("revision 1\n", None),
        ("revision", None),
    ],
)
def test_a_revision_is_a_number_that_a_release_can_have(line: str, expected: int | None) -> None:
    assert read_revision(line) == expected


@given(st.integers(1, 2**31 - 1), st.lists(operations).map(tuple))
def test_a_plan_that_is_written_is_read_again(revision: int, found: tuple[Operation, ...]) -> None:
    for exact in (None, "e" * 64):
        plan = replace(with_objects(revision, found), exact=exact)
        assert read_plan(plan.text) == plan


def with_objects(revision: int, found: tuple[Operation, ...]) -> Plan:
    """A plan whose chart has what is written."""
    return Plan(revision, found, objects=RenderedObjects(Plan(revision, found).written))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "revision 0",
        "create ::Pod:a",
        "create ::Pod:a\nrevision 1",
        "revision 1\n\ncreate ::Pod:a",
        "revision 1\ncreate ::Pod:a\nsomething else",
    ],
)
def test_a_text_that_is_no_plan_is_not_read(text: str) -> None:
    assert read_plan(text) is None


def test_a_namespace_that_is_not_there_is_created() -> None:
    plan = Plan(1, ops("create ::Pod:a", "update ::Pod:b"))

    assert effects(plan, None) == plan.operations
    assert effects(plan, "shop") == ops(
        "create ::Namespace:shop", "create ::Pod:a", "update ::Pod:b"
    )


def test_a_chart_that_creates_its_namespace_itself_does_it_once() -> None:
    plan = Plan(1, ops("create ::Namespace:shop"))

    assert effects(plan, "shop") == plan.operations


def test_an_apply_whose_dry_run_was_refused_is_called_blind() -> None:
    assert describe_counts(OperationCounts(create=3, apply=1)) == "3 create, 1 blind apply"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("create ::ConfigMap:a", False),
        ("update :apps:Deployment:a", False),
        ("delete ::ConfigMap:a", True),
        ("recreate :batch:Job:a", True),
        ("apply ::ConfigMap:a", True),
        ("create :apps:StatefulSet:a", True),
        ("update ::PersistentVolumeClaim:a", True),
        ("create ::Namespace:a", True),
        ("create ::ServiceAccount:a", True),
        ("update ::PersistentVolume:a", True),
        ("create :apiregistration.k8s.io:APIService:v1.a", True),
        ("create :certificates.k8s.io:CertificateSigningRequest:a", True),
        ("create :flant.com:CopyratorRule:a", True),
        ("update :operator.werf.dev:Bundle:a", True),
        ("create :rbac.authorization.k8s.io:Role:a", True),
        ("update :rbac.authorization.k8s.io:ClusterRole:a", True),
        ("create :rbac.authorization.k8s.io:RoleBinding:a", True),
        ("create :rbac.authorization.k8s.io:ClusterRoleBinding:a", True),
        ("create :authorization.openshift.io:RoleBinding:a", True),
        ("create :apiextensions.k8s.io:CustomResourceDefinition:a.b", True),
        ("update :admissionregistration.k8s.io:ValidatingWebhookConfiguration:a", True),
        ("create :admissionregistration.k8s.io:MutatingWebhookConfiguration:a", True),
        ("create :admissionregistration.k8s.io:ValidatingAdmissionPolicy:a", True),
        ("create :admissionregistration.k8s.io:MutatingAdmissionPolicyBinding:a", True),
    ],
)
def test_what_is_risky(line: str, expected: bool) -> None:
    assert bool(risky(ops(line), ())) is expected


def test_what_the_baseline_has_is_not_risky_again_but_for_kinds_that_always_are() -> None:
    usual = ops("recreate :batch:Job:mig", "apply ::Secret:a", "recreate :apps:StatefulSet:db")
    found = ops(
        "apply ::Secret:a",
        "delete ::Secret:a",
        "recreate :apps:StatefulSet:db",
        "recreate :batch:Job:mig",
        "recreate :batch:Job:other",
    )

    assert risky(found, usual) == ops(
        "delete ::Secret:a", "recreate :apps:StatefulSet:db", "recreate :batch:Job:other"
    )


@given(found=st.lists(operations), baseline=st.lists(operations))
def test_a_baseline_only_takes_away_risk(found: list[Operation], baseline: list[Operation]) -> None:
    assert set(risky(found, baseline)) <= set(risky(found, ()))
    assert risky(found, found) == ()


MADE_OF: dict[str, Any] = {
    "digest": "sha256:" + "a" * 64,
    "values_hash": "keyed:1234",
    "job_hash": "1" * 32,
    "revision": 3,
    "operations": ops("create ::Pod:a", "update ::Pod:b"),
    "render": "a" * 64,
    "objects": RenderedObjects(frozenset({"::Pod:c"})),
    "rejections": 0,
}


def plan_id(
    *,
    revision: int,
    operations: tuple[Operation, ...],
    render: str | None,
    objects: RenderedObjects,
    exact: str | None = None,
    rejections: int = 0,
    **record: Any,
) -> str:
    plan = Plan(revision, (), render, objects=objects, exact=exact)
    return id_of(PlanStatus(**record), plan, operations, rejections)


def test_an_id_is_the_same_in_every_process_and_version() -> None:
    """Waiting approvals would be void after an upgrade otherwise."""
    assert plan_id(**MADE_OF) == "5d0875c8d21e403f24d972a61241a936"


def test_the_order_of_operations_is_of_no_account() -> None:
    assert plan_id(**MADE_OF | {"operations": MADE_OF["operations"][::-1]}) == plan_id(**MADE_OF)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("digest", "sha256:" + "b" * 64),
        ("values_hash", None),
        ("values_hash", "keyed:1235"),
        ("job_hash", "2" * 32),
        ("revision", 4),
        ("operations", ops("create ::Pod:a")),
        ("operations", ops("create ::Pod:a", "delete ::Pod:b")),
        ("operations", ()),
        ("render", "b" * 64),
        ("render", None),
        ("objects", RenderedObjects()),
        ("objects", RenderedObjects(frozenset({"::Pod:c"}), frozenset({"::Pod:c"}))),
        ("objects", RenderedObjects(frozenset({"::Pod:c"}), rollback_hooks=ops("create ::Pod:c"))),
        ("objects", RenderedObjects(frozenset({"::Pod:c"}), uninstall_hooks=ops("create ::Pod:c"))),
        ("objects", RenderedObjects(frozenset({"::Pod:c"}), as_account=frozenset({"::Pod:c"}))),
        ("rejections", 1),
    ],
)
def test_each_part_is_in_the_id(part: str, value: Any) -> None:
    assert plan_id(**MADE_OF | {part: value}) != plan_id(**MADE_OF)


def test_a_saved_plan_has_an_id_of_its_own() -> None:
    found = {plan_id(**MADE_OF, exact=exact) for exact in (None, "1" * 64, "2" * 64)}
    assert len(found) == 3
    assert plan_id(**MADE_OF | {"rejections": 0}) == plan_id(
        **{part: value for part, value in MADE_OF.items() if part != "rejections"}
    )


def test_a_plan_with_fewer_objects_has_none_further() -> None:
    def of(*names: str) -> Plan:
        return Plan(1, (), objects=RenderedObjects(frozenset(f"::Pod:{name}" for name in names)))

    assert not has_further_objects(of("a", "b"), of("a", "b"))
    assert not has_further_objects(of("a", "b"), of("a"))
    assert has_further_objects(of("a"), of("a", "b"))
    assert not has_further_objects(of(), of())


def test_the_operations_on_hooks_and_as_the_deploying_account_are_known() -> None:
    objects = RenderedObjects(
        frozenset({"::Pod:a", "::Pod:hook", "::Pod:same"}),
        frozenset({"::Pod:hook"}),
        rollback_hooks=ops("create ::Pod:back"),
        as_account=frozenset({"::Pod:a", "::Pod:back"}),
    )
    plan = Plan(1, ops("delete ::Pod:gone", "create ::Pod:hook", "update ::Pod:a"), objects=objects)

    assert plan.hooks == {op("create ::Pod:hook")}
    assert plan.as_account == {op("update ::Pod:a"), op("create ::Pod:back")}
    assert set(objects.untouched()) == set(ops("update ::Pod:a", "update ::Pod:same"))


def test_an_object_that_is_also_made_at_a_rollback_counts_as_a_hook() -> None:
    objects = RenderedObjects(frozenset({"::Pod:a"}), rollback_hooks=ops("create ::Pod:a"))
    assert objects.untouched() == ()


@pytest.mark.parametrize(
    "text", ["", "at rollback: ", "as the deploying account: destroy ::Pod:a", "has ::Pod:a"]
)
def test_what_is_no_planned_operation_is_none(text: str) -> None:
    assert read_planned(text) is None


def test_names_of_hooks_may_hold_colons() -> None:
    for start in ("at rollback: create", "at uninstall: create"):
        line = f"{start} :rbac.authorization.k8s.io:ClusterRole:system:a:b"
        found = read_objects([line])
        assert found is not None
        ((_, one),) = found.operations()
        assert (one.kind, one.name) == ("ClusterRole", "system:a:b")


@pytest.mark.parametrize(
    ("approved", "found", "missing"),
    [
        ("create ::Pod:a", "create ::Pod:a", False),
        ("create ::Pod:a", "update ::Pod:a", False),
        ("create ::Pod:a", "recreate ::Pod:a", False),
        ("create :g:Role:say hi", "update :g:Role:say hi", False),
        ("create :g:Role:say hi", "update :g:Role:say", True),
        ("create ::Pod:a", "delete ::Pod:a", True),
        ("create ::Pod:a", "apply ::Pod:a", True),
        ("create ::Pod:a", "update ::Pod:b", True),
        ("create ::Pod:a", "update ns::Pod:a", True),
        ("update ::Pod:a", "create ::Pod:a", True),
        ("update ::Pod:a", "recreate ::Pod:a", True),
        ("recreate ::Pod:a", "update ::Pod:a", True),
        ("apply ::Pod:a", "update ::Pod:a", True),
        ("delete ::Pod:a", "create ::Pod:a", True),
    ],
)
def test_an_approved_create_covers_what_a_failed_attempt_left_to_do(
    approved: str, found: str, missing: bool
) -> None:
    assert covers(ops(approved), ops(found)) is not missing


@given(approved=st.sets(operations), found=st.sets(operations))
def test_whatever_is_covered_was_approved_for_that_object(
    approved: set[Operation], found: set[Operation]
) -> None:
    assert covers(approved, approved)
    assert covers(approved, ())
    for one in found:
        object_ = str(one).partition(" ")[2]
        types = {each.type for each in approved if str(each).partition(" ")[2] == object_}
        if covers(approved, [one]):
            again = one.type in (OperationType.UPDATE, OperationType.RECREATE)
            assert one.type in types or (again and OperationType.CREATE in types)
        else:
            assert not covers(approved, found)
            assert one not in approved


def test_hooks_and_the_deploying_account_count_as_risk() -> None:
    """Hooks by their kinds, as what a deploy makes; the account always, whatever the baseline."""
    found = ops("create ::ConfigMap:a", "update :apps:Deployment:robot", "delete ::Pod:gone")
    objects = RenderedObjects(
        frozenset({"::ConfigMap:a", ":apps:Deployment:robot"}),
        rollback_hooks=ops("create :rbac.authorization.k8s.io:ClusterRole:a", "create ::Pod:b"),
        uninstall_hooks=ops("create :x:RoleBinding:b", "create ::ConfigMap:c"),
        as_account=frozenset({":apps:Deployment:robot", "::Pod:b", "::Pod:gone"}),
    )

    named = list_risky(all_planned(found, objects), found)

    assert named == (
        "as the deploying account: update :apps:Deployment:robot",
        "at rollback: create :rbac.authorization.k8s.io:ClusterRole:a",
        "as the deploying account: at rollback: create ::Pod:b",
        "at uninstall: create :x:RoleBinding:b",
    )
    read = [read_planned(one) for one in named]
    assert [str(one) for one in read] == list(named)
    assert {str(one) for one in read} <= {str(one) for one in all_planned(found, objects)}
    text = "1 create, 1 update, 1 delete, 2 at rollback, 2 at uninstall"
    assert describe_counts(count_all(found, objects)) == text


@pytest.mark.parametrize(
    ("approved", "found", "expected"),
    [
        (RenderedObjects(), RenderedObjects(as_account=frozenset({"::Pod:a"})), True),
        (RenderedObjects(frozenset({"::Pod:a"})), RenderedObjects(), False),
        (RenderedObjects(), RenderedObjects(frozenset({"::Pod:a"})), True),
        (RenderedObjects(), RenderedObjects(rollback_hooks=ops("create ::Pod:a")), True),
        (
            RenderedObjects(rollback_hooks=ops("create ::Pod:a")),
            RenderedObjects(uninstall_hooks=ops("create ::Pod:a")),
            True,
        ),
    ],
)
def test_an_approval_is_of_the_objects_and_hooks_of_its_plan(
    approved: RenderedObjects, found: RenderedObjects, expected: bool
) -> None:
    before, now = (Plan(2, (), objects=one) for one in (approved, found))

    assert has_further_objects(before, now) is expected


def test_of_a_first_install_each_object_has_one_line() -> None:
    found = ops("create ::ConfigMap:a", "create ::Pod:hook", "delete ::Pod:gone")
    objects = RenderedObjects(
        frozenset({"::ConfigMap:a", "::Pod:hook", "::Pod:same"}), frozenset({"::Pod:hook"})
    )
    plan = Plan(1, found, "a" * 64, objects=objects)

    lines = plan.text.splitlines()

    listed = [str(one) for one in found]
    head = ["revision 1", f"render {'a' * 64}"]
    assert lines == [*head, *listed, "objects 3", "has ::Pod:same", "hook ::Pod:hook"]
    assert read_plan(plan.text) == plan


@pytest.mark.parametrize(
    "text",
    [
        "revision 1\nrender none\nobjects 1\n",
        "revision 1\nrender none\nobjects 0\nhas ::Pod:a\n",
        "revision 1\nrender none\nhas ::Pod:a\n",
        "revision 1\nrender none\nobjects 1\nhas ::Pod:a\ncreate ::Pod:b\n",
        "revision 1\nrender none\nobjects 1\nhad ::Pod:a\n",
        "revision 1\nrender none\nobjects 1x\nhas ::Pod:a\n",
    ],
)
def test_a_text_whose_objects_cannot_be_read_is_no_plan(text: str) -> None:
    assert read_plan(text) is None
