"""Which Bundles are polled at once, as something was pushed to their repository."""

from __future__ import annotations

from collections.abc import Sequence

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.version_range import ExactTag, VersionError, parse_version
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.step import Change
from copyrator.oci.notifications import Push, canonical


def bring_forward(context: Context, pushes: Sequence[Push]) -> int:
    """Poll at once for every Bundle that a push may concern; returns their number.

    Answers to earlier requests aren't accepted. It takes one pass over all Bundles, however many
    pushes a payload has.
    """
    pushed: dict[tuple[str, str | None], set[str | None]] = {}
    for push in pushes:
        pushed.setdefault((push.repository, push.registry), set()).add(push.tag)
    count, now = 0, context.monotonic()  # one time for all, so that they share their queries
    for entry in context.bundles if pushed else ():
        spec = entry.spec
        if not isinstance(spec, BundleSpec) or entry.is_paused or entry.deleting:
            continue
        repo, registry = spec.repo.lower(), canonical(spec.registry)
        tags = pushed.get((repo, None), set()) | pushed.get((repo, registry), set())
        if tags and (context.gates.judge_versions(spec) or _may_concern(tags, spec)):
            context.schedule.changed(entry.key, Change.PUSH, since=now)
            count += 1
    return count


def _may_concern(tags: set[str | None], spec: BundleSpec) -> bool:
    """Whether one of the tags may match the Bundle's spec; None is any tag."""
    if None in tags:
        return True
    try:
        version = parse_version(spec.version)
    except VersionError:
        return False
    return not isinstance(version, ExactTag) or version.tag in tags
