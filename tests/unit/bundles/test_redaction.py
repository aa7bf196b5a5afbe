"""What a log quotes of a Secret is taken out of it, and little else."""

import base64
import json

import pytest
from tests.kubeconfigs import SERVER, ca, document
from tests.steps import assert_quick

from copyrator.api.kubeconfig import KUBECONFIG_BYTES, parse_kubeconfig
from copyrator.bundles.jobs.redaction import find_quotes, hide_quotes, secret_part
from copyrator.settings.limits import STEP_SECONDS


def without(text: str, *contents: bytes) -> str:
    return hide_quotes(text, find_quotes(contents, [text]))


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
        ("hunter/2%20is%20mine", "<redacted>"),
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


KUBECONFIG = json.dumps(document(token="t0ken-of-the-team")).encode()


def test_of_a_kubeconfig_the_credential_is_secret_and_its_server_is_not():
    assert secret_part(KUBECONFIG) == b"t0ken-of-the-team"
    assert secret_part(parse_kubeconfig(KUBECONFIG).encode()) == b"t0ken-of-the-team"


@pytest.mark.parametrize("length", [30, 31, 32])
@pytest.mark.parametrize("is_copy", [False, True])
def test_a_clients_key_is_secret_as_it_stands_in_the_kubeconfig(length: int, is_copy: bool):
    data = base64.b64encode(bytes(range(length))).decode()
    key = f"-----BEGIN PRIVATE KEY-----\n{data}\n-----END PRIVATE KEY-----\n"
    encoded = base64.b64encode(key.encode()).decode()
    found = document()
    user = {"client-certificate-data": base64.b64encode(ca().encode()).decode()}
    found["users"][0]["user"] = user | {"client-key-data": encoded}
    content = json.dumps(found).encode()
    content = parse_kubeconfig(content).encode() if is_copy else content

    text = f"the key {encoded} or {data} of {SERVER} is remote"

    assert without(text, secret_part(content)) == (
        f"the key <redacted> or <redacted> of {SERVER} is remote"
    )


@pytest.mark.parametrize(
    "content",
    [
        KUBECONFIG.replace(b'"current-context"', b'"other"'),
        KUBECONFIG.replace(b"https:", b"http:"),
        KUBECONFIG + b"\n" * KUBECONFIG_BYTES,
        b"current-context: x",
        b"s3cret",
    ],
)
def test_of_anything_else_all_is_secret(content: bytes):
    assert secret_part(content) == content


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
        (f"{TOKEN[20:]} is not {TOKEN[:20]}", "<redacted> is not <redacted>"),
    ],
    ids=["at its end", "at its beginning", "in base64", "at both", "twice"],
)
def test_the_part_of_a_value_that_a_text_was_cut_off_in_is_hidden(text: str, left: str):
    assert without(text, f"token: {TOKEN}".encode()) == left


@pytest.mark.parametrize(
    ("content", "text", "left"),
    [
        (b"abcd", "x abcd", "x <redacted>"),
        (b"a: abcd", "abcd", "<redacted>"),
        (b"a: abc", "an abc", "an abc"),
        (b"a: 123456", "pin 123456", "pin <redacted>"),
        (b"a: 12345", "pin 12345", "pin 12345"),
        (b"true", "it is true", "it is XX"),
        (b"a: a/bcd", "a%2Fbcd", "XX"),
        (b"a: ! abcdef", "abcdef", "XX"),
        (b"a: 1234.5", "it is 1234.5", "it is <redacted>"),
        (b"a: 12.34", "it is 12.34", "it is 12.34"),
        (b"a: true", "it is true", "it is true"),
        (b"a: 2026-01-01", "on 2026-01-01", "on 2026-01-01"),
        (b"a: 'true'", "it is true", "it is <redacted>"),
        (b"a: !!str 12345", "pin 12345", "pin <redacted>"),
        (b"a: !!binary 12345", "pin 12345", "pin 12345"),
        (b"a: |\n  12345678\n  1234567\n", "12345678 1234567", "<redacted> 1234567"),
        (b"a: [first, [second], {key: third}]", "first second key third", "XX XX key XX"),
        (b"a: {k: [v]}\nbbbb: cccc", "k bbbb cccc", "k bbbb XX"),
        (b"? [complex]\n: value", "value", "XX"),
        (b"a: " + b"7" * 64, "7" * 64, "XX"),
        (b"a: " + b"7" * 65, "7" * 65, "XX"),
        ("a: пароль".encode(), "%D0%BF%D0%B0%D1%80%D0%BE%D0%BB%D1%8C", "XX"),
        ("a: пароль".encode(), "\\u043f\\u0430\\u0440\\u043e\\u043b\\u044c", "XX"),
    ],
)
def test_the_shortest_of_each_kind_is_hidden_and_nothing_shorter(
    content: bytes, text: str, left: str
):
    assert without(f"({text})", content) == f"({left})".replace("XX", "<redacted>")


LONG = "abcdefghijkl-mnopqrstuvwxyz"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"it is {LONG[:12]}", "it is <redacted>"),
        (f"it is {LONG[:11]}", f"it is {LONG[:11]}"),
        (f"{LONG[-12:]} is it", "<redacted> is it"),
        (f"{LONG[-11:]} is it", f"{LONG[-11:]} is it"),
        (f"{LONG[1:]} is it", "<redacted> is it"),
        (LONG[5:17], "<redacted>"),
        (LONG[5:16], LONG[5:16]),
        ("zebras are not quoted", "zebras are not quoted"),
        (f"{LONG[5:20]} is it", f"{LONG[5:20]} is it"),  # neither cut nor whole
        (f"it is {LONG[5:20]}", f"it is {LONG[5:20]}"),
    ],
)
def test_a_part_of_a_value_is_hidden_from_twelve_characters_on(text: str, left: str):
    assert without(text, LONG.encode()) == left


def test_a_value_of_twelve_characters_is_hidden_whole_or_not():
    assert without(f"it is {LONG[:12]}", LONG[:12].encode()) == "it is <redacted>"
    assert without(f"it is {LONG[:11]}", LONG[:12].encode()) == f"it is {LONG[:11]}"


@pytest.mark.parametrize(
    ("value", "text", "left"),
    [
        ("abc" * 6 + "X", "abc" * 4 + "X is wrong", "<redacted> is wrong"),
        ("a" * 50 + "X", "a" * 30 + "X is wrong", "<redacted> is wrong"),
        ("a" * 200 + "X", "a" * 30 + "X is wrong", "<redacted> is wrong"),
        ("X" + "abc" * 6, "it is X" + "abc" * 4, "it is <redacted>"),
        ("X" + "a" * 50, "it is X" + "a" * 30, "it is <redacted>"),
    ],
)
def test_the_part_of_a_value_that_repeats_itself_is_hidden(value: str, text: str, left: str):
    assert without(text, value.encode()) == left


@pytest.mark.measures
def test_a_value_of_nothing_but_repetition_takes_no_long_time():
    value, text = ("a" * 4_000 + "b").encode(), "a" * 16_000 + "c" + "a" * 16_000
    assert_quick(lambda: find_quotes([value] * 10, [text]), STEP_SECONDS)
