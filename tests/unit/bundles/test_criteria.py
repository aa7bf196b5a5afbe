"""What a Bundle asks of a tag list, read from its spec and its status."""

from __future__ import annotations

import pytest
from tests.replacing import replace

from copyrator.api.bundle_spec import BundleSpec, Retry
from copyrator.api.bundle_status import Attempted, BundleStatus, Deployed, Outcome
from copyrator.api.version_range import VersionRange, parse_version
from copyrator.bundles.tags import Criteria, Selection, criteria_of, deployed_tag

SPEC = BundleSpec(
    namespace="n", name="b", registry="r", repo="app", version="1.*", project_namespace="n"
)
RANGE = parse_version("1.*")
assert isinstance(RANGE, VersionRange)


@pytest.mark.parametrize(
    ("reference", "floor"),
    [("r/app", "1.2.0"), (None, "1.2.0"), ("r/other", None), ("other/app", None)],
)
def test_only_a_deploy_from_the_same_repository_is_a_floor(
    reference: str | None, floor: str | None
) -> None:
    status = BundleStatus(deployed=Deployed(version="1.2.0", reference=reference))

    assert deployed_tag(status, "r/app") == floor


@pytest.mark.parametrize(
    ("outcome", "failures", "quarantined"),
    [
        (Outcome.FAILED, 3, "1.3.0"),
        (Outcome.FAILED, 2, None),
        (Outcome.SUCCEEDED, 3, None),
        (Outcome.INTERRUPTED, 9, None),
    ],
)
def test_a_tag_is_quarantined_when_its_failures_are_over_the_limit(
    outcome: Outcome, failures: int, quarantined: str | None
) -> None:
    attempted = Attempted(version="1.3.0", outcome=outcome, failures=failures)
    spec = replace(SPEC, retry=Retry(limit=2))

    found = criteria_of(spec, RANGE, BundleStatus(attempted=attempted))

    assert found.quarantined == quarantined


def test_criteria_are_what_the_spec_asks_and_what_became_of_it() -> None:
    spec = replace(SPEC, tag_filter="v.*", prerelease=True, retry=Retry(limit=0))
    status = BundleStatus(
        deployed=Deployed(version="1.2.0", reference="r/app"),
        attempted=Attempted(version="1.3.0", outcome=Outcome.FAILED, failures=1),
    )

    assert criteria_of(spec, RANGE, status, depth=9) == Criteria(
        RANGE, "v.*", prerelease=True, quarantined="1.3.0", deployed="1.2.0", depth=9
    )
    assert criteria_of(spec, RANGE, status).depth == 0


def test_without_criteria_the_newest_is_chosen_and_nothing_is_a_downgrade() -> None:
    selection = Criteria(RANGE).selection()
    for tag in ("1.2.0", "1.3.0"):
        selection.add(tag)

    assert (selection.result().verdict, selection.result().tag) == (Selection.CHOSEN, "1.3.0")


def test_as_many_tags_that_fit_are_named_as_gates_may_judge() -> None:
    selection = Criteria(RANGE, depth=2).selection()
    for tag in ("1.1.0", "1.2.0", "1.3.0"):
        selection.add(tag)

    assert selection.result().fitting == ("1.3.0", "1.2.0")


def test_what_is_deployed_is_a_floor() -> None:
    selection = Criteria(RANGE, deployed="1.4.0").selection()
    selection.add("1.3.0")

    assert selection.result().verdict == Selection.WOULD_DOWNGRADE


def test_equal_criteria_are_one() -> None:
    again = parse_version(" 1.* ")
    assert isinstance(again, VersionRange)

    assert len({Criteria(RANGE), Criteria(again), criteria_of(SPEC, again, BundleStatus())}) == 1


def test_a_selection_heeds_all_of_it() -> None:
    criteria = Criteria(RANGE, "1.*", prerelease=True, quarantined="1.3.0-rc.1", deployed="1.2.0")
    selection = criteria.selection()
    for tag in ("1.2.0", "1.3.0-rc.1", "v1.4.0"):
        selection.add(tag)

    choice = selection.result()

    assert (choice.verdict, choice.tag) == (Selection.QUARANTINED, "1.3.0-rc.1")
    assert [one.reason for one in choice.rejected] == ["Filtered", "Quarantined"]
