"""News of pushes: the polls of the Bundles that they may concern are brought forward.

Nothing else comes of them. The registry is asked as at any other poll, by the same shared
question and within the same limits of its host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.version_range import ExactTag, VersionError, parse_version
from copyrator.engine.outcome import Lane

if TYPE_CHECKING:
    from copyrator.oci.notifications import Push
    from copyrator.reconcile.bundle_context import Context


SETTLED: Final = 2.0
"""After so many seconds a registry's tag shows what was pushed: distribution tells of a manifest
before it sets the tag, so that the first answer may be the old one."""


def bring_forward(context: Context, pushes: Sequence[Push]) -> int:
    """Want an answer that is newer than this moment for every Bundle that a push may concern.

    One pass over all Bundles, however many pushes a payload names; returns how many are asked.
    """
    by_repository: dict[str, list[Push]] = {}
    for push in pushes:
        by_repository.setdefault(push.repository, []).append(push)
    count, now = 0, context.monotonic()  # the same for all, so that they share their questions
    for entry in context.bundles if by_repository else ():
        spec = entry.spec
        if not isinstance(spec, BundleSpec) or entry.is_paused or entry.deleting:
            continue
        if any(_may_concern(push, spec) for push in by_repository.get(spec.repo.lower(), ())):
            memory = context.memory(entry.key)
            memory.asked_since, memory.again, memory.asked_at = now, now + SETTLED, context.clock()
            context.queue.add(entry.key, Lane.URGENT)
            count += 1
    return count


def _may_concern(push: Push, spec: BundleSpec) -> bool:
    if not push.concerns(spec.registry, spec.repo):
        return False
    if push.tag is None:
        return True
    try:
        version = parse_version(spec.version)
    except VersionError:
        return False
    return not isinstance(version, ExactTag) or version.tag == push.tag
