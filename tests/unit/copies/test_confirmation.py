"""spec.maxDelete: which deletions of an edited rule need a confirmation."""

import pytest

from copyrator.api.keys import CopyKey
from copyrator.copies.targets.planning import Unconfirmed, judge_edit


def keys(count: int, name: str = "app") -> frozenset[CopyKey]:
    return frozenset(CopyKey("secrets", f"team-{number}", name) for number in range(count))


@pytest.mark.parametrize(
    ("deleted", "had", "max_delete", "needs"),
    [
        (20, 20, 50, False),
        (21, 21, 50, True),
        (21, 42, 50, False),
        (21, 41, 50, True),
        (50, 100, 50, False),
        (51, 100, 50, True),
        (100, 100, 99, True),
        (100, 100, 100, False),
        (101, 100, 100, False),
        (21, 10_000, 0, True),
        (20, 10_000, 0, False),
        (0, 0, 0, False),
    ],
)
def test_more_than_the_share_and_more_than_20(deleted, had, max_delete, needs) -> None:
    found = judge_edit(4, keys(deleted), had, max_delete)
    assert found == (Unconfirmed(4, keys(deleted), had) if needs else None)


def test_copies_made_meanwhile_do_not_make_the_deletion_smaller() -> None:
    """A rename was unconfirmed; its copies exist now; the next edit changes something else."""
    renamed = Unconfirmed(4, keys(30), 30)
    assert judge_edit(5, keys(30), 60, 50) is None
    assert judge_edit(5, keys(30), 60, 50, renamed) == Unconfirmed(5, keys(30), 30)


def test_an_edit_taken_back_deletes_what_it_made() -> None:
    renamed = Unconfirmed(4, keys(30), 30)
    assert judge_edit(5, keys(30, "new"), 60, 50, renamed) is None


def test_an_edit_that_deletes_fewer_is_judged_by_those() -> None:
    earlier = Unconfirmed(4, keys(30), 40)
    assert judge_edit(5, keys(20), 40, 50, earlier) is None
    assert judge_edit(5, keys(21), 60, 50, earlier) == Unconfirmed(5, keys(21), 40)


def test_after_a_restart_the_same_copies_are_assumed() -> None:
    earlier = Unconfirmed(4, None, 30)
    assert judge_edit(5, keys(30, "new"), 60, 50, earlier) == Unconfirmed(5, keys(30, "new"), 30)
    assert judge_edit(5, keys(15), 60, 50, earlier) is None


def test_a_raised_share_lets_it_through() -> None:
    assert judge_edit(5, keys(30), 30, 100, Unconfirmed(4, keys(30), 30)) is None
