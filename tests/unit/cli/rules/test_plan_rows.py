"""What a dry_run comes to, in rows; keys are named and values never."""

import msgspec
import pytest

from copyrator.cli.rules.plan import (
    Keys,
    PlanRow,
    RowAction,
    action_of,
    diff,
    merge_rows,
    summary,
)


def secret(data, **metadata):
    return {"kind": "Secret", "type": "Opaque", "data": data, "metadata": metadata}


def test_a_difference_names_keys_and_no_values():
    live = secret({"same": "c2FtZQ==", "old": "b2xk", "other": "b25l"}, labels={"a": "1"})
    wanted = secret({"same": "c2FtZQ==", "new": "bmV3", "other": "dHdv"}, labels={"a": "2"})
    keys = diff(live, wanted)
    assert str(keys) == "+new ~labels/a ~other -old"
    row = PlanRow(RowAction.UPDATE, "Secret", "ns", "name", keys=keys)
    said = msgspec.json.encode(row).decode() + str(keys)
    for value in ("c2FtZQ", "bmV3", "dHdv", "b2xk"):
        assert value not in said


def test_our_own_marks_and_the_default_type_are_no_difference():
    marks = {"copyrator.flant.com/content-hash": "x", "kubectl.kubernetes.io/last-applied": "y"}
    ours = {"app.kubernetes.io/managed-by": "copyrator"}
    assert str(diff(secret({}), secret({}, annotations=marks, labels=ours))) == ""


def test_of_other_kinds_the_fields_are_named():
    live = {"metadata": {}, "roleRef": {"name": "view"}, "subjects": []}
    assert (
        str(diff(live, {"metadata": {}, "roleRef": {"name": "edit"}, "subjects": []})) == "~roleRef"
    )
    assert str(diff(None, live)) == "+roleRef +subjects"


@pytest.mark.parametrize(
    ("methods", "unmanaged", "action"),
    [
        ([], False, None),
        (["POST"], True, RowAction.CREATE),
        (["PUT"], False, RowAction.UPDATE),
        (["PUT", "PUT"], False, RowAction.UPDATE),
        (["PUT"], True, RowAction.ADOPT),
        (["DELETE"], False, RowAction.DELETE),
        (["PATCH"], False, RowAction.RELEASE),
    ],
)
def test_the_writes_to_an_object_come_to_one_action(methods, unmanaged, action):
    assert action_of(methods, unmanaged=unmanaged) == action


def test_the_last_line_counts():
    def row(action):
        return PlanRow(action, "Secret", "ns", "name", keys=Keys())

    assert summary([], 3) == "No changes: 3 copies are up to date."
    assert summary([], 1) == "No changes: 1 copy is up to date."
    rows = [
        row(RowAction.CREATE),
        row(RowAction.CREATE),
        row(RowAction.CONFLICT),
        row(RowAction.BLOCKED),
    ]
    changes = "Plan: 2 to create, 1 in conflict, 1 blocked;"
    assert summary(rows, 0) == f"{changes} 0 are up to date."
    assert summary(rows, 1) == f"{changes} 1 is up to date."


def test_rows_of_a_plan_are_merged_but_not_its_changes():
    faults = [
        PlanRow(
            RowAction.BLOCKED, "Secret", name, "a", "Forbidden", f"namespace {name} has no label"
        )
        for name in ("team-a", "team-b", "team-c")
    ]
    changes = [PlanRow(RowAction.CREATE, "Secret", f"new-{letter}", "a") for letter in "abc"]
    *created, merged = merge_rows([*faults, *changes])
    assert [row.namespace for row in created] == ["new-a", "new-b", "new-c"]
    assert merged.namespace == "3 namespaces (team-a, team-b, …)"
    assert merged.message == "the namespace has no label"
