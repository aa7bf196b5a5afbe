"""JSON of signatures: its largest size, and numbers that are never computed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from copyrator.signatures.model import SIGNATURE_BYTES, InvalidSignatureError
from copyrator.signatures.strict_json import decode


class Document(msgspec.Struct):
    """Any member."""

    member: Any = None


def read(raw: bytes) -> Any:
    return decode("the document", raw, Document).member


def test_a_document_of_the_largest_size_is_read() -> None:
    whole = b'{"member": "x"}'.ljust(SIGNATURE_BYTES)
    assert read(whole) == "x"
    with pytest.raises(InvalidSignatureError, match="the document has more than 262144 bytes"):
        read(whole + b" ")


@pytest.mark.parametrize("number", ["7", "-7", "1.5", "1e400", "9" * 9999])
def test_numbers_of_any_length_are_not_computed(number: str) -> None:
    assert read(b'{"member": %s}' % number.encode()) == 0


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_what_json_has_no_numbers_for_is_no_json(constant: str) -> None:
    with pytest.raises(InvalidSignatureError, match="the document is not valid JSON"):
        read(b'{"member": %s}' % constant.encode())
