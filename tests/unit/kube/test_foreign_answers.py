"""What is left of the errors of a server that isn't trusted, and how long its lines may be."""

from collections.abc import AsyncIterator

import pytest

from copyrator.kube.client.answers import containers, from_foreign_answer, lines
from copyrator.kube.errors import AnswerTooLarge, Forbidden, Gone, NotFound, Unauthorized


@pytest.mark.parametrize(
    ("status", "kind"), [(401, Unauthorized), (403, Forbidden), (404, NotFound), (410, Gone)]
)
def test_the_status_decides_the_class_and_the_words_are_ours(status: int, kind: type) -> None:
    error = from_foreign_answer(status, {})
    assert type(error) is kind
    assert f"({status})" in error.message


def test_a_redirect_is_named() -> None:
    assert "isn't followed" in from_foreign_answer(302, {"Location": "http://evil"}).message


async def sent(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def test_lines_up_to_the_limit_pass_however_they_are_cut() -> None:
    found = [line async for line in lines(sent(b"aa", b"a\nbbb\n" * 100, b"cc\n"), 4)]
    assert found == [b"aaa", *[b"bbb", b"a"] * 99, b"bbb", b"cc"]


async def test_a_longer_line_is_not_held() -> None:
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield b"x" * 10

    with pytest.raises(AnswerTooLarge):
        _ = [line async for line in lines(endless(), 100)]
    assert taken <= 12


def test_brackets_in_texts_are_no_containers() -> None:
    assert containers(b'{"a": "' + b"[" * 200_000 + b'"}') == 1
    assert containers(b"[" * 200_000 + b"]" * 200_000) == 200_000
