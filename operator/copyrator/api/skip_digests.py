"""The annotation skip-digests of a Bundle: digests that are never chosen. Pure."""

from __future__ import annotations

import re
from typing import Final

from copyrator.api import names, syntax
from copyrator.api.fields import Fields, SpecError, check_text
from copyrator.settings import limits

_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_EACH: Final = 73
"""Characters of a digest with a comma and a space."""


def read_skip_digests(metadata: Fields) -> tuple[str, ...]:
    """The digests, sorted, each once; empty where the annotation is absent.

    Raises:
        SpecError: it isn't a list of digests. It isn't ignored: what it names must not be deployed.
    """
    raw = metadata.sub("annotations").get(names.ANN_SKIP_DIGESTS)
    if raw is None:
        return ()
    path = f"metadata.annotations[{names.ANN_SKIP_DIGESTS}]"
    most = limits.BUNDLE_SKIPPED_DIGESTS
    text = check_text(raw, path)
    parts = text.replace(",", " ").split(maxsplit=most) if len(text) <= most * _EACH else ()
    if not 0 < len(parts) <= most:
        raise SpecError(path, f"must have 1 to {most} digests, separated by commas")
    for part in parts:
        if not _DIGEST.fullmatch(part):
            hint = "write each as sha256: and 64 hexadecimal digits, separated by commas"
            raise SpecError(path, f"{syntax.shown(part)} isn't a digest; {hint}")
    return tuple(sorted(set(parts)))
