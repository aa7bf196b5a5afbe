"""What a log quotes of a Secret is taken out of it, and little else."""

import base64

import pytest

from copyrator.bundles.policy.redaction import hidden, quoted


def without(text: str, *contents: bytes) -> str:
    return hidden(text, quoted(contents, [text]))


VALUES = b"""\
db:
  password: &p hunter/2 is mine
  port: 5432
  pin: 12345678
  users: [alice, bob, *p]
  key: |
    -----BEGIN KEY-----
    c2VjcmV0c2VjcmV0
    -----END KEY-----
"""


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("wrong password hunter/2 is mine!", "wrong password <redacted>!"),
        ("hunter%2F2%20is%20mine", "<redacted>"),
        (base64.b64encode(b"hunter/2 is mine").decode(), "<redacted>"),
        ("pin 12345678", "pin <redacted>"),
        ("user alice on port 5432", "user <redacted> on port 5432"),
        ("got c2VjcmV0c2VjcmV0 there", "got <redacted> there"),
        ("db.password: port: key", "db.password: port: key"),
    ],
)
def test_the_values_of_a_values_file_are_hidden_and_its_keys_are_not(text: str, left: str):
    assert without(text, VALUES) == left


@pytest.mark.parametrize(
    ("content", "text", "left"),
    [
        (b"s3cret", "login s3cret", "login <redacted>"),
        (b"s3cret\n", "login s3cret", "login <redacted>"),
        (b"abc", "abc of it", "abc of it"),
        (b"", "nothing", "nothing"),
        (b"{broken: [yaml", "it says {broken: [yaml", "it says <redacted>"),
        (b'{"auths":{"r":{"password":"pa\\"ss"}}}', 'pa"ss', "<redacted>"),
        (b'{"auths":{"r":{"password":"pa\\"ss"}}}', 'msg="pa\\"ss"', 'msg="<redacted>"'),
        (b"\xff\xfe\x00\x01", "x //4AAQ== y", "x <redacted> y"),
    ],
)
def test_any_content_of_a_secret_is_hidden(content: bytes, text: str, left: str):
    assert without(text, content) == left


def test_the_longest_value_goes_first():
    assert without("word and more; word", b"word", b"word and more") == "<redacted>; <redacted>"


def test_a_document_full_of_aliases_is_read_once():
    lines = ["a0: &a0 [secret-value]"]
    lines += [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
    assert without("a secret-value", "\n".join(lines).encode()) == "a <redacted>"


def test_every_document_of_a_stream_and_what_stands_before_a_mistake_is_found():
    content = b"a: first-value\n---\nb: second-value\nc: ["
    assert without("first-value second-value", content) == "<redacted> <redacted>"


TOKEN = "eyJhbGciOi.JIUzI1NiIsInR5.cCI6IkpXVCJ9.abcdefgh"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"the token is {TOKEN[:20]}", "the token is <redacted>"),
        (f"{TOKEN[20:]} is wrong", "<redacted> is wrong"),
        (
            f"the token is {base64.b64encode(TOKEN.encode()).decode()[:30]}",
            "the token is <redacted>",
        ),
        (TOKEN[5:30], "<redacted>"),
    ],
    ids=["at its end", "at its beginning", "in base64", "at both"],
)
def test_the_part_of_a_value_that_a_text_was_cut_off_in_is_hidden(text: str, left: str):
    assert without(text, f"token: {TOKEN}".encode()) == left
