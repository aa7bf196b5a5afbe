"""Decodes JSON of a signature into typed structs, if all parsers would read it equally."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, NoReturn, TypeVar

import msgspec

from copyrator.signatures.model import SIGNATURE_BYTES, InvalidSignatureError

T = TypeVar("T")


def decode(what: str, raw: bytes, kind: type[T], *, integers: bool = False) -> T:
    """Decode a document.

    A member that occurs twice is refused, also where the names differ in case only: parsers take
    the first or the last, and Go's ignores the case, so another parser, such as cosign's, would
    read other claims.

    Args:
        what: Names the document in messages: ``the payload``.
        raw: At most ``SIGNATURE_BYTES``.
        kind: A msgspec Struct; types aren't converted.
        integers: Whether it has numbers, which have to be whole and have at most 15 digits; else
            all are read as 0, however long they are.

    Raises:
        Invalid: too large, not UTF-8, not JSON, nested too deeply, ambiguous, or of another shape.
    """
    if len(raw) > SIGNATURE_BYTES:
        raise InvalidSignatureError(f"{what} has more than {SIGNATURE_BYTES} bytes")
    try:
        document = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=read_members,
            parse_constant=_refuse_constant,
            parse_float=_refuse_constant if integers else _number,
            parse_int=_integer if integers else _number,
        )
        return msgspec.convert(document, kind)
    except _AmbiguousError as error:
        raise InvalidSignatureError(f"{what} has the member {error} more than once") from None
    except msgspec.ValidationError as error:
        raise InvalidSignatureError(f"{what} has another shape: {error}") from None
    except (ValueError, RecursionError):
        raise InvalidSignatureError(f"{what} is not valid JSON") from None


def decode_base64(what: str, text: str) -> bytes:
    """Decode standard base64 in its one canonical form, with its padding and without line ends.

    Raises:
        Invalid: another form, or nothing.
    """
    try:
        decoded = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidSignatureError(f"{what} is not base64") from None
    if not decoded:
        raise InvalidSignatureError(f"{what} is empty")
    if base64.b64encode(decoded).decode() != text:
        raise InvalidSignatureError(f"{what} is not base64 in its canonical form")
    return decoded


class _AmbiguousError(ValueError):
    """A member that occurs twice; the text is its name."""


def read_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a map for ``json.loads``.

    Raises:
        ValueError: a member occurs twice, in any case.
    """
    seen: set[str] = set()
    for name, _ in pairs:
        folded = name.casefold()
        if folded in seen:
            raise _AmbiguousError(repr(name[:50]))
        seen.add(folded)
    return dict(pairs)


def _number(_: str) -> int:
    return 0


def _integer(digits: str) -> int:
    if len(digits) > 15:
        raise ValueError(digits[:20])
    return int(digits)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)
