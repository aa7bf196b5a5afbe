"""Which revision of a release runs, by what Helm has stored. Pure.

Whether a failed deploy was rolled back (``spec.autoRollback``) isn't in werf's report. Helm's
labels on the Secrets of the revisions show which one runs: after a rollback a further revision is
``deployed``; where the rollback failed too (for example because the new version has an object that
the API server rejects as invalid), none is newer and deployed (docs/facts/werf.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from copyrator.api.bundle_status import Rollback
from copyrator.bundles.jobs.job import AUTO_ROLLBACK
from copyrator.bundles.jobs.pod import DEPLOY_CONTAINER

_DEPLOYED: Final = "deployed"
_NO_REVISION: Final = 2**31


@dataclass(frozen=True, slots=True)
class Revision:
    """A stored revision of a release: its number, and its status in Helm's terms."""

    number: int
    status: str


@dataclass(frozen=True, slots=True)
class RolledBack:
    """Whether the former version runs again, and as which revision."""

    rollback: Rollback
    revision: int | None = None


def asks_for_rollback(pods: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the newest pod of a deploy Job ran werf with ``--auto-rollback``."""
    spec = (pods[-1].get("spec") or {}) if pods else {}
    return any(
        container.get("name") == DEPLOY_CONTAINER
        and any(AUTO_ROLLBACK in part for part in container.get("command") or ())
        for container in spec.get("containers") or ()
    )


def read_revision(metadata: Mapping[str, Any]) -> Revision | None:
    """Parse the metadata of a Secret in which Helm stores a revision; None where it isn't one."""
    labels = metadata.get("labels") or {}
    number = str(labels.get("version") or "")
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        return None
    found = int(number)
    return Revision(found, str(labels.get("status") or "")) if 0 < found < _NO_REVISION else None


def judge(revisions: Sequence[Revision], failed: int | None) -> RolledBack:
    """The state of a release whose revision ``failed`` didn't succeed.

    Args:
        revisions: all that are stored, in any order.
        failed: the number of the failed revision, from werf's report.
    """
    newest = max(revisions, key=lambda revision: revision.number, default=None)
    if newest is None or failed is None:
        return RolledBack(Rollback.UNKNOWN)
    if newest.number > failed and newest.status == _DEPLOYED:
        return RolledBack(Rollback.SUCCEEDED, newest.number)
    return RolledBack(Rollback.FAILED)
