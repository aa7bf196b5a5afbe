"""The criteria of a Bundle's selection from a tag list; Bundles with equal ones share it."""

from __future__ import annotations

from dataclasses import dataclass

from copyrator.api.bundle_spec import BundleSpec, Retry
from copyrator.api.bundle_status import BundleStatus, Outcome
from copyrator.api.tagfilter import compile_filter
from copyrator.api.version_range import ExactTag, VersionRange, parse_version
from copyrator.bundles.policy.candidates import Selection, TagSelection
from copyrator.bundles.policy.versions import is_lower, read_tag


@dataclass(frozen=True, slots=True)
class Criteria:
    """A range with everything that restricts it."""

    range: VersionRange
    tag_filter: str | None = None
    prerelease: bool = False
    quarantined: str | None = None
    """A tag that failed too often."""
    deployed: str | None = None
    """The deployed tag, of the same repository."""
    depth: int = 0
    """How many tags that fit are named in the choice."""

    def selection(self) -> TagSelection:
        """A new selection with these criteria; every tag of a list has to be added to it."""
        return TagSelection(
            self.range,
            matches=compile_filter(self.tag_filter).matches if self.tag_filter else None,
            prerelease=self.prerelease,
            quarantined=() if self.quarantined is None else (self.quarantined,),
            deployed=self.deployed,
            depth=self.depth,
        )


def criteria_of(
    spec: BundleSpec, wanted: VersionRange, status: BundleStatus, depth: int = 0
) -> Criteria:
    """The Bundle's present criteria."""
    return Criteria(
        range=wanted,
        tag_filter=spec.tag_filter,
        prerelease=spec.prerelease,
        quarantined=_quarantined(status, spec.retry),
        deployed=deployed_tag(status, spec.reference),
        depth=depth,
    )


def deployed_tag(status: BundleStatus, reference: str) -> str | None:
    """The deployed tag, if it came from this repository: tags of another one don't compare.

    Deploys without a recorded repository (the original operator's) count as from this one: else a
    lower version could be deployed automatically.
    """
    there = status.deployed
    return there.version if there.reference in (None, reference) else None


def _quarantined(status: BundleStatus, retry: Retry) -> str | None:
    attempted = status.attempted
    failed = attempted.outcome == Outcome.FAILED and (attempted.failures or 0) > retry.limit
    return attempted.version if failed else None


def admits(spec: BundleSpec, tag: str) -> bool:
    """Whether the spec names this tag, or its range, filter and pre-releases admit it."""
    version = parse_version(spec.version)
    if isinstance(version, ExactTag):
        return version.tag == tag
    selection = criteria_of(spec, version, BundleStatus()).selection()
    selection.add(tag)
    return selection.result().verdict is Selection.CHOSEN


def is_below(tag: str, other: str) -> bool:
    """Whether both are versions, and the first is the lower one."""
    one, two = read_tag(tag), read_tag(other)
    return one is not None and two is not None and is_lower(one, two)
