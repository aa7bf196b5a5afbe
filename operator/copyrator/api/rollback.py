"""The annotations skip-digests and pin: what is never deployed, and what a user rolled back to."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Final

from copyrator.api import names, syntax
from copyrator.api.bundle_spec import Part
from copyrator.api.fields import SpecError, check_text
from copyrator.api.records import Record, Time
from copyrator.api.schema import DERIVED

BUNDLE_SKIPPED_DIGESTS: Final = 20
"""Digests in the annotation skip-digests: each is held in memory, and compared with every version
that could be deployed."""

_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_EACH: Final = 73
"""Characters of a digest with a comma and a space."""


class RollbackSpec(Part):
    """What is never deployed."""

    skip_digests: Annotated[tuple[str, ...], DERIVED] = ()
    """Digests of the annotation; sorted."""


def read_skip_digests(raw: Any) -> RollbackSpec:
    """The digests of the annotation, sorted, each once.

    Raises:
        SpecError: it isn't a list of digests. It isn't ignored: what it names must not be deployed.
    """
    path = f"metadata.annotations[{names.ANN_SKIP_DIGESTS}]"
    most = BUNDLE_SKIPPED_DIGESTS
    text = check_text(raw, path)
    parts = text.replace(",", " ").split(maxsplit=most) if len(text) <= most * _EACH else ()
    if not 0 < len(parts) <= most:
        raise SpecError(path, f"must have 1 to {most} digests, separated by commas")
    for part in parts:
        if not _DIGEST.fullmatch(part):
            hint = "write each as sha256: and 64 hexadecimal digits, separated by commas"
            raise SpecError(path, f"{syntax.shown(part)} isn't a digest; {hint}")
    return RollbackSpec(tuple(sorted(set(parts))))


class PinStatus(Record, frozen=True):
    """What a user rolled back to; see bundles.requests."""

    FIELD: ClassVar[str] = "pin"
    """The rollback that a user asked for by the annotation operator.werf.dev/pin; absent without
    one."""

    requested: str | None = None
    """The newest value of the annotation that the operator has seen; absent while the annotation
    is."""
    version: str | None = None
    """The tag of the pinned version, the only one that is deployed; absent where nothing is
    pinned."""
    digest: str | None = None
    """Its manifest digest."""
    selection: str | None = None
    """Hash of version, tagFilter, prerelease, registry and repo of the spec: an edit of these ends
    the pin."""
    at: Time | None = None
    """When it was pinned."""
    refused: str | None = None
    """Why the requested value wasn't taken. A former pin stays."""


UNPINNED: Final = PinStatus()
