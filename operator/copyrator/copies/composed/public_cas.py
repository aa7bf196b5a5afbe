"""Reads the public CAs that an entry of ``spec.sources`` with ``defaultCAs`` stands for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from copyrator.copies.template.scope import Meter, PublicCAs, TemplateError

FILE_BYTES: Final = 1_048_576
"""Of the file: what an object may have."""


def read_public_cas(path: Path) -> PublicCAs:
    """Read a file of certificates in PEM; takes 20 ms for those of a distribution.

    Raises:
        TemplateError: it can't be used.
    """
    # Only who has such a rule loads Jinja2 with it.
    from copyrator.copies.template.filters import read_certificates  # noqa: PLC0415

    try:
        if path.exists() and not path.is_file():
            raise TemplateError(f"{path} isn't a file")  # opening a pipe would wait for its writer
        with path.open("rb") as file:
            content = file.read(FILE_BYTES + 1)
    except OSError as error:
        raise TemplateError(f"{path} can't be read: {error.strerror}") from None
    if len(content) > FILE_BYTES:
        raise TemplateError(f"{path} has more than {FILE_BYTES} bytes")
    meter = Meter()
    meter.left = sys.maxsize  # the file is bounded, and read once, not for each copy
    found = read_certificates(meter, content.decode("utf-8", "replace"), str(path))
    if not found:
        raise TemplateError(f"{path} has no certificates")
    return PublicCAs(found)
