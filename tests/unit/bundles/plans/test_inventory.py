"""What an uninstall may delete: the union of approved plans, and nothing of the stored release."""

from __future__ import annotations

import pytest
from tests.replacing import replace

from copyrator.api.bundle_status import Attempted, BundleStatus, Deployed
from copyrator.bundles.plans.operations import Operation, OperationType, RenderedObjects
from copyrator.bundles.plans.secrets import ReleaseInventory, read_release

HOOK = Operation(OperationType.CREATE, "", "batch", "Job", "clean")
ONE = RenderedObjects(frozenset({"::ConfigMap:a", "::ConfigMap:b"}))
TWO = RenderedObjects(
    frozenset({"::ConfigMap:b", ":batch:Job:clean"}),
    frozenset({":batch:Job:clean"}),
    (replace(HOOK, name="back"),),
    (HOOK,),
    frozenset({":batch:Job:clean"}),
)
FIRST = BundleStatus(attempted=Attempted(attempt=1))


def deployed(plan: str | None) -> BundleStatus:
    there = Deployed(version="1.0", digest="sha256:a", plan_job=plan)
    return BundleStatus(attempted=Attempted(attempt=7), deployed=there)


def test_it_is_the_union_of_all_plans_since_the_release_began() -> None:
    found = ReleaseInventory().with_plan("p1", ONE, FIRST)
    found = found.with_plan("p2", TWO, deployed("p1"))

    assert found.is_complete(deployed("p1"))
    assert [str(one) for one in found.deletions] == [
        "delete ::ConfigMap:a",
        "delete ::ConfigMap:b",
        "delete :batch:Job:clean",
    ]
    assert found.objects.uninstall_hooks == (HOOK,)
    assert found.hooks_as_account == {HOOK}
    assert found.objects.rollback_hooks == (), "they are of one version, not of the release"
    assert read_release(found.to_text()) == found


def test_the_same_again_changes_nothing_so_that_nothing_is_written() -> None:
    found = ReleaseInventory().with_plan("p1", ONE, FIRST)

    assert found.with_plan("p2", ONE, deployed("p1")) == found


@pytest.mark.parametrize("former", [None, "p0"])
def test_what_an_older_operator_deployed_is_not_known_until_a_known_plan_is_deployed(
    former: str | None,
) -> None:
    found = ReleaseInventory().with_plan("p1", ONE, deployed(former))

    assert not found.is_complete(deployed(former))
    assert found.is_complete(deployed("p1"))
    again = found.with_plan("p2", TWO, deployed("p1"))
    assert again.is_whole
    assert again.is_complete(deployed("p2"))


def test_a_release_that_an_attempt_without_a_known_plan_began_is_not_whole() -> None:
    failed = replace(FIRST, attempted=Attempted(attempt=2))

    assert not ReleaseInventory().with_plan("p2", ONE, failed).is_complete(failed)


def test_the_plans_that_are_named_are_bounded() -> None:
    found = ReleaseInventory()
    for number in range(50):
        found = found.with_plan(f"p{number}", ONE, deployed("other"))

    assert len(found.plans) == 20
    assert found.plans[-1] == "p49"
