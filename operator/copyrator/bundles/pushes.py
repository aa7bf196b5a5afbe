"""News of pushes: the polls of the Bundles that they may concern are brought forward.

Nothing else comes of them. The registry is asked as at any other poll, by the same shared
question and within the same limits of its host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.version_range import ExactTag, VersionError, parse_version
from copyrator.oci.notifications import canonical
from copyrator.workqueue.outcome import Priority

if TYPE_CHECKING:
    from copyrator.bundles.context import Context
    from copyrator.oci.notifications import Push


SETTLED: Final = 2.0
"""After so many seconds a registry's tag shows what was pushed: distribution tells of a manifest
before it sets the tag, so that the first answer may be the old one."""

_NONE: Final[Mapping[str | None, set[str | None]]] = {}
"""Of a repository that no push names; never changed."""


def bring_forward(context: Context, pushes: Sequence[Push]) -> int:
    """Want an answer that is newer than this moment for every Bundle that a push may concern.

    One pass over all Bundles, however many pushes a payload names; returns how many are asked.
    """
    pushed: dict[str, dict[str | None, set[str | None]]] = {}
    for push in pushes:
        pushed.setdefault(push.repository, {}).setdefault(push.registry, set()).add(push.tag)
    count, now = 0, context.monotonic()  # the same for all, so that they share their questions
    for entry in context.bundles if pushed else ():
        spec = entry.spec
        if not isinstance(spec, BundleSpec) or entry.is_paused or entry.deleting:
            continue
        registries = pushed.get(spec.repo.lower(), _NONE)
        tags = registries.get(None, set()) | registries.get(canonical(spec.registry), set())
        if tags and _may_concern(tags, spec):
            memory = context.memory(entry.key)
            memory.asked_since, memory.again, memory.asked_at = now, now + SETTLED, context.clock()
            context.queue.add(entry.key, Priority.URGENT)
            count += 1
    return count


def _may_concern(tags: set[str | None], spec: BundleSpec) -> bool:
    """Tell whether one of the tags, of which None is any, may be what the Bundle wants."""
    if None in tags:
        return True
    try:
        version = parse_version(spec.version)
    except VersionError:
        return False
    return not isinstance(version, ExactTag) or version.tag in tags
