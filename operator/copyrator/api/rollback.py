"""The annotation skip-digests: what is never deployed."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from copyrator.api import names, syntax
from copyrator.api.bundle_spec import Part
from copyrator.api.fields import SpecError, check_text
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
