"""Credentials of Secrets, what a registry asks for, and headers of any length."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.steps import STEP_SECONDS, assert_quick

from copyrator.api.docker_config import CREDENTIAL_BYTES
from copyrator.oci import auth as auth_module
from copyrator.oci.auth import (
    Challenge,
    Credential,
    UnusableSecretError,
    find_credential,
    parse_challenges,
)
from copyrator.oci.exchange import REGISTRY_HEADER_BYTES, Repository, Request, next_target
from copyrator.oci.transport import DEFAULT_RETRY_AFTER, RETRY_AFTER_CAP, retry_after


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def opaque(**data: str) -> dict[str, Any]:
    return {"data": {key: encoded(value) for key, value in data.items()}}


def docker(auths: Any) -> dict[str, Any]:
    return {"data": {".dockerconfigjson": encoded(json.dumps({"auths": auths}))}}


PAIR = {"username": "alice", "password": "s3cret"}
ALICE = Credential("alice", "s3cret")


@pytest.mark.parametrize(
    ("secret", "registry", "expected"),
    [
        (opaque(**PAIR), "r", ALICE),
        (opaque(username="alice\n", password="s3cret\n"), "r", ALICE),
        (opaque(username="alice", password="s3cret \n"), "r", Credential("alice", "s3cret ")),
        (opaque(username="alice", password="s3cret\n\n"), "r", Credential("alice", "s3cret\n")),
        (opaque(username="alice", password=" "), "r", Credential("alice", " ")),
        (docker({"other": {"auth": encoded("bob:x")}, "r": PAIR, "r:5000": {}}), "r", ALICE),
    ],
)
def test_reads_credentials(secret: dict[str, Any], registry: str, expected: Credential) -> None:
    assert find_credential(secret, Repository(registry, "a")).credential == expected


def test_what_is_as_long_as_may_be_is_taken() -> None:
    longest = "x" * CREDENTIAL_BYTES
    for secret in (
        opaque(username="a", password=longest),
        docker({"r": {"registrytoken": longest}}),
    ):
        found = find_credential(secret, Repository("r", "a")).credential
        assert longest in (found.password, found.registry_token)


def test_what_is_too_long_isnt_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth_module.base64, "b64decode", None)
    with pytest.raises(UnusableSecretError, match="more than"):
        find_credential({"data": {".dockerconfigjson": "A" * 1_000_000}}, Repository("r", "a"))


@pytest.mark.parametrize(
    ("secret", "words"),
    [
        ({}, "no username and no password"),
        (opaque(password="s3cret"), "no username"),
        ({"data": {"username": "%%%", "password": "%%%"}}, "isn't UTF-8"),
        ({"data": {".dockerconfigjson": encoded("s3cret")}}, "auths"),
        ({"data": {".dockerconfigjson": encoded("[" * 10_000)}}, "auths"),
        (docker({"r": {"username": "s3cret", "password": "\ud800"}}), "auths"),
        (opaque(username="s3cret", password="s3cret" * 4000), "more than 16384 bytes under pass"),
        (docker({"r": {**PAIR, "password": "s3cret" * 4000}}), "a password of more than 16384"),
        (docker({"r": {"auth": encoded("s3cret:" + "x" * 20_000)}}), "a password of more than"),
        (docker({"r": {"identitytoken": "s3cret" * 4000}}), "an identity token of more than"),
        (docker({"r": PAIR, "x": "s3cret" * 50_000}), "more than 262144 bytes under .dockerconf"),
    ],
)
def test_says_what_a_secret_lacks_and_never_what_it_has(secret: dict[str, Any], words: str) -> None:
    with pytest.raises(UnusableSecretError, match=words) as found:
        find_credential(secret, Repository("r", "a"))

    assert "s3cret" not in str(found.value)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (
            ['Bearer realm="https://a/t",service="s",scope="repository:x:pull"'],
            [Challenge("bearer", "https://a/t", "s", "repository:x:pull")],
        ),
        (['Basic realm="Registry, \\"R\\""'], [Challenge("basic", 'Registry, "R"')]),
        (
            ['Bearer realm="https://a/t", Basic realm="b"'],
            [Challenge("bearer", "https://a/t"), Challenge("basic", "b")],
        ),
        ([], []),
        (
            ['Basic realm="the shop, Bearer realm=https://other.example/token, x"'],
            [Challenge("basic", "the shop, Bearer realm=https://other.example/token, x")],
        ),
        (
            ['Digest realm="a\\", Bearer realm=\\"https://o/t", Basic realm="b"'],
            [Challenge("basic", "b")],
        ),
        (
            [' ,, Bearer\t realm = "https://a/t" ,\t, service\t=s , scope="", Basic,'],
            [Challenge("bearer", "https://a/t", "s"), Challenge("basic")],
        ),
        (
            ['Negotiate YII/bearer+abc==, Bearer realm="https://a/t", NTLM, Basic realm=b'],
            [Challenge("bearer", "https://a/t"), Challenge("basic", "b")],
        ),
        # Commas in quotes belong to the value, whatever is after them.
        (
            ['Bearer error="invalid_token, Basic realm=x", SCOPE="a:b:*,c", realm="https://a/t"'],
            [Challenge("bearer", "https://a/t", "", "a:b:*,c")],
        ),
        # Without quotes a comma ends the value.
        (
            ["Bearer realm=https://a/t,service=s,scope=repository:x:pull,push"],
            [Challenge("bearer", "https://a/t", "s", "repository:x:pull")],
        ),
        # Nothing after a fault is read.
        (
            ['Bearer realm="https://a/t",scope="repository:x:pull,push'],
            [Challenge("bearer", "https://a/t")],
        ),
        (['Bearer realm="https://a/t" service="s"'], [Challenge("bearer", "https://a/t")]),
        (["Basic Bearer realm=https://other.example/token"], [Challenge("basic")]),
        (['realm="a", Bearer realm="https://other.example/token"'], []),
        (
            ['Basic realm="a', 'Bearer realm="https://a/t"'],
            [Challenge("basic"), Challenge("bearer", "https://a/t")],
        ),
        (["Bearer:realm=https://a/t"], []),
        (["Bearer realm=https://a/" + "t" * REGISTRY_HEADER_BYTES], []),
    ],
)
def test_reads_what_a_registry_asks_for(headers: list[str], expected: list[Challenge]) -> None:
    assert parse_challenges(headers) == expected


SPACES = st.text(" \t", max_size=3)
TOKENS = st.text("!#$%&'*+.^_`|~-09azAZ", min_size=1, max_size=6)
TEXTS = st.lists(
    st.sampled_from([",", "Bearer ", "Basic", "realm=", '"', "\\", "=", " "]) | st.text(max_size=4)
).map(lambda parts: "".join(parts).replace("\n", ""))


@st.composite
def challenges(draw: st.DrawFn) -> tuple[str, list[Challenge]]:
    """A header as RFC 9110 allows it, and what it says."""
    parts, expected = [], []
    for _ in range(draw(st.integers(1, 4))):
        scheme = draw(st.sampled_from(["Basic", "BEARER", "bearer", "Negotiate", "X-Bearer"]))
        values = draw(st.dictionaries(st.sampled_from(["realm", "service", "scope", "x"]), TEXTS))
        named = []
        for name, value in values.items():
            every = draw(st.booleans())
            quoted = "".join(f"\\{c}" if every or c in '"\\' else c for c in value)
            named.append(f'{name}{draw(SPACES)}={draw(SPACES)}"{quoted}"')
        comma = f"{draw(SPACES)},{draw(SPACES)}"
        parts.append(f"{scheme} {draw(SPACES)}{comma.join(named)}")
        values.pop("x", None)
        if scheme.lower() in ("basic", "bearer"):
            expected.append(Challenge(scheme.lower(), **values))
    return ", ".join(parts), expected


@given(challenges())
def test_any_header_is_read_as_it_was_meant(header: tuple[str, list[Challenge]]) -> None:
    assert parse_challenges([header[0]]) == header[1]


@given(TEXTS, TOKENS)
def test_nothing_in_quotes_is_read_as_a_scheme(text: str, scheme: str) -> None:
    """Whether or not the quotes are escaped as they should be, the first one that isn't ends it."""
    inside = text.replace("\\", "").replace('"', '\\"')
    closed = parse_challenges([f'{scheme} realm="{inside}"'])
    open_ended = parse_challenges([f'{scheme} realm="{inside}'])
    assert [one.scheme for one in closed] == [one.scheme for one in open_ended]
    assert {one.scheme for one in closed} <= {scheme.lower()}
    assert all(one.realm == text.replace("\\", "") for one in closed)


@pytest.mark.parametrize(
    ("repository", "url"),
    [
        (Repository("r:5000", "a/b"), "https://r:5000/v2/a/b/manifests/1"),
        (Repository("r", "a", plain_http=True), "http://r/v2/a/manifests/1"),
        (
            Repository("docker.io", "nginx"),
            "https://registry-1.docker.io/v2/library/nginx/manifests/1",
        ),
        (Repository("index.docker.io", "a/b"), "https://registry-1.docker.io/v2/a/b/manifests/1"),
    ],
)
def test_finds_where_a_repository_is(repository: Repository, url: str) -> None:
    assert repository.manifest_url("1") == url


def test_what_a_request_is_shown_as_has_no_token() -> None:
    headers, form = {"Authorization": "Bearer sentinel-1"}, {"access_token": "sentinel-2"}
    shown = repr(Request("POST", "https://r/oauth2/exchange", headers=headers, form=form))
    assert "https://r/oauth2/exchange" in shown
    assert "sentinel" not in shown


PIECES = [
    "a", "a ", "a=", 'a="', '\\"x=', "a-", "-a", 'b="\\', "Bearer,", ", ", ",Basi", 'Bearer a="b" ',
    "rel=", 'rel="', "rel  ", 'rel="next ', "next ", "<", "<a", "<a>;", "rel=next;", "=", '"', "\\",
    " ", "1", "1_", "(", "()", ":", "Mon, ", "Mon, 01 Jan 2020 00:00:00 +", "-", "\u00e9",
]  # fmt: skip


def read_retry_after(header: str) -> float:
    return retry_after({"Retry-After": header, "Date": header})


READERS: dict[str, Callable[[str], Any]] = {
    "WWW-Authenticate": lambda header: parse_challenges([header] * 64),
    "Link": lambda header: next_target([header] * 64),
    "Retry-After": read_retry_after,
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("start", ["", "Bearer ", 'Bearer a="', '<a>; rel="'])
def test_a_long_header_takes_no_long_step(read: Callable[[str], Any], start: str) -> None:
    for piece in PIECES:
        header = (start + piece * REGISTRY_HEADER_BYTES)[:REGISTRY_HEADER_BYTES]
        assert_quick(lambda: read(header), STEP_SECONDS)  # noqa: B023


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@given(
    pieces=st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=6),
    times=st.integers(1, 3000),
)
def test_no_mixture_takes_a_long_step_either(
    read: Callable[[str], Any], pieces: list[str], times: int
) -> None:
    header = ("".join(pieces) * times)[:REGISTRY_HEADER_BYTES]
    assert_quick(lambda: read(header), STEP_SECONDS)


@given(st.text(), st.text())
def test_any_retry_after_is_a_time_within_bounds(value: str, date: str) -> None:
    asked = retry_after({"Retry-After": value, "Date": date})
    assert 1.0 <= asked <= RETRY_AFTER_CAP
    assert DEFAULT_RETRY_AFTER <= RETRY_AFTER_CAP


def test_what_stands_beyond_the_bytes_that_are_read_does_not_end_a_tag_list() -> None:
    padding = "<a>; rel=prev, " + "x" * REGISTRY_HEADER_BYTES
    assert next_target([padding, "<b>; rel=next"]) == ""
