"""What became of a release after a failed deploy, as a table."""

from __future__ import annotations

from typing import Any

import pytest

from copyrator.api.bundle_status import Rollback
from copyrator.bundles.jobs.checks import checked_deploy_command
from copyrator.bundles.jobs.job import AUTO_ROLLBACK
from copyrator.bundles.jobs.revisions import (
    Revision,
    RolledBack,
    asks_for_rollback,
    judge,
    read_revision,
)
from copyrator.bundles.jobs.script import APPLY_COMMAND

FIRST = Revision(1, "superseded")
SECOND = Revision(2, "failed")


@pytest.mark.parametrize(
    ("revisions", "failed", "found"),
    [
        ([FIRST, SECOND, Revision(3, "deployed")], 2, RolledBack(Rollback.SUCCEEDED, 3)),
        ([Revision(3, "deployed"), SECOND], 2, RolledBack(Rollback.SUCCEEDED, 3)),
        ([Revision(1, "deployed"), SECOND], 2, RolledBack(Rollback.FAILED)),
        ([FIRST, SECOND, Revision(3, "failed")], 2, RolledBack(Rollback.FAILED)),
        ([FIRST, SECOND, Revision(3, "pending-rollback")], 2, RolledBack(Rollback.FAILED)),
        ([Revision(2, "deployed")], 2, RolledBack(Rollback.FAILED)),
        ([], 2, RolledBack(Rollback.UNKNOWN)),
        ([FIRST], None, RolledBack(Rollback.UNKNOWN)),
    ],
)
def test_the_newest_revision_tells(
    revisions: list[Revision], failed: int | None, found: RolledBack
) -> None:
    assert judge(revisions, failed) == found


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ({"version": "7", "status": "deployed"}, Revision(7, "deployed")),
        ({"version": "7"}, Revision(7, "")),
        ({"version": "9" * 5000, "status": "deployed"}, None),
        ({"version": "-1"}, None),
        ({"version": "0"}, None),
        ({"version": "1", "status": "failed"}, Revision(1, "failed")),
        ({"version": "999999999"}, Revision(999999999, "")),
        ({"version": "1000000000"}, None),
        ({"version": "\u0663"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_a_revision_is_read_from_helms_labels(
    labels: dict[str, str] | None, found: Revision | None
) -> None:
    assert read_revision({"name": "sh.helm.release.v1.shop.v7", "labels": labels}) == found


def pod(*command: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "werf", "command": list(command)}]}}


def test_the_pod_says_whether_a_rollback_was_asked_for() -> None:
    assert not asks_for_rollback([])
    both: tuple[tuple[str, ...], ...] = ((), (AUTO_ROLLBACK,))
    for plain, with_it in (
        [pod("werf", "bundle", "apply", *flags) for flags in both],
        [pod(*APPLY_COMMAND, *flags) for flags in both],
        [pod(*checked_deploy_command((), flags)) for flags in both],
    ):
        assert not asks_for_rollback([with_it, plain])
        assert asks_for_rollback([plain, with_it])
        assert asks_for_rollback([with_it, plain, plain, with_it])
    other = {"spec": {"containers": [{"name": "side", "command": ["--auto-rollback"]}]}}
    assert not asks_for_rollback([other])
    assert not asks_for_rollback([{}])
    assert not asks_for_rollback([{"spec": {"containers": [{"name": "werf"}]}}])
