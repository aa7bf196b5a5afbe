"""The annotations skip-digests and pin: what is never deployed, and what a user rolled back to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Final, Self

from copyrator.api import names
from copyrator.api.bundle_spec import Part
from copyrator.api.bundle_status import BundleStatus, HistoryEntry, Outcome, Pin
from copyrator.api.schema import DERIVED, SpecError, Time, check_text
from copyrator.api.text import member, quoted

BUNDLE_SKIPPED_DIGESTS: Final = 20
"""Digests in the annotation skip-digests: each is held in memory, and compared with every version
that could be deployed."""

_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_EACH: Final = 73
"""Characters of a digest with a comma and a space."""


class RollbackSpec(Part):
    """What is never deployed."""

    ANNOTATION: ClassVar[str] = names.ANN_SKIP_DIGESTS

    skip_digests: Annotated[tuple[str, ...], DERIVED] = ()
    """Digests of the annotation; sorted."""

    @property
    def excluded(self) -> tuple[str, ...]:
        """Those digests."""
        return self.skip_digests

    @classmethod
    def read_annotation(cls, raw: Any) -> Self:
        """The digests of the annotation, sorted, each once.

        Raises:
            SpecError: it isn't a list of digests. It isn't ignored: what it names must not be
                deployed.
        """
        path = f"metadata.annotations{member(names.ANN_SKIP_DIGESTS)}"
        most = BUNDLE_SKIPPED_DIGESTS
        text = check_text(raw, path)
        parts = text.replace(",", " ").split(maxsplit=most) if len(text) <= most * _EACH else ()
        if not 0 < len(parts) <= most:
            raise SpecError(path, f"must have 1 to {most} digests, separated by commas")
        for part in parts:
            if not _DIGEST.fullmatch(part):
                hint = "write each as sha256: and 64 hexadecimal digits, separated by commas"
                raise SpecError(path, f"{quoted(part)} isn't a digest; {hint}")
        return cls(tuple(sorted(set(parts))))


class PinStatus(Pin, frozen=True):
    """What a user rolled back to."""

    FIELD: ClassVar[str] = "pin"
    """The rollback that a user asked for by the annotation operator.werf.dev/pin; absent without
    one."""

    selection: str | None = None
    """Hash of version, tagFilter, prerelease, registry and repo of the spec: an edit of these ends
    the pin."""
    at: Time | None = None
    """When it was pinned."""
    refused: str | None = None
    """Why the requested value wasn't taken. A former pin stays."""

    @property
    def refusal(self) -> str:
        """Why the annotation wasn't taken, and what stays."""
        if self.refused is None:
            return ""
        stays = "the former pin stays" if self.digest is not None else "nothing is pinned"
        return f"The annotation {names.ANN_PIN} is refused: {self.refused}; {stays}"


def rollback_targets(status: BundleStatus, reference: str) -> tuple[HistoryEntry, ...]:
    """The successful deploys from this repository, newest first."""
    return tuple(
        one
        for one in status.past
        if one.outcome == Outcome.SUCCEEDED and one.digest and one.reference == reference
    )


def describe_ignored(deploys: Iterable[HistoryEntry], reference: str) -> str:
    """Why the successful ones of these are no targets, as clauses; empty where all others are."""
    found: dict[str, str] = {}
    for one in deploys:
        if one.outcome == Outcome.SUCCEEDED and one.reference != reference:
            found.setdefault(one.reference or "", f"; it has {one.version} from {one.reference}")
    return "".join(found.values())


SPEC: Final = (RollbackSpec,)
STATUS: Final = (PinStatus,)
