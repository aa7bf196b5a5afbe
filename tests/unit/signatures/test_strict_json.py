"""JSON of signatures: its largest size, and numbers that are never computed."""

from __future__ import annotations

import re
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


def test_a_message_names_the_beginning_of_a_member_that_occurs_twice() -> None:
    name = "x" * 51
    said = f"the document has the member {name[:50].upper()!r} more than once"
    with pytest.raises(InvalidSignatureError, match=re.escape(said)):
        read(f'{{"{name}": 1, "{name.upper()}": 2}}'.encode())
