"""How Secrets hold credentials, how registries ask for them, and where repositories are."""

import base64
import json
from typing import Any

import pytest

from copyrator.oci import auth as auth_module
from copyrator.oci.auth import (
    Challenge,
    Credential,
    UnusableSecretError,
    credential_from_secret,
    parse_challenges,
)
from copyrator.oci.reference import Repository
from copyrator.settings.limits import CREDENTIAL_BYTES


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
        (docker({"r": PAIR}), "r", ALICE),
        (docker({"r": {"auth": encoded("alice:s3cret")}}), "r", ALICE),
        (docker({"r": {"auth": encoded("alice:a:b")}}), "r", Credential("alice", "a:b")),
        (docker({"https://r:5000/v1/": PAIR}), "r:5000", ALICE),
        (docker({"https://index.docker.io/v1/": PAIR}), "docker.io", ALICE),
        (docker({"docker.io": PAIR}), "registry-1.docker.io", ALICE),
        (docker({"other": {}, "r": PAIR}), "r", ALICE),
        (docker({"r": {"identitytoken": "t"}}), "r", Credential(identity_token="t")),
        (docker({"r": {"registrytoken": "t"}}), "r", Credential(registry_token="t")),
    ],
)
def test_reads_credentials(secret: dict[str, Any], registry: str, expected: Credential) -> None:
    assert credential_from_secret(secret, registry) == expected


def test_what_is_as_long_as_may_be_is_taken() -> None:
    longest = "x" * CREDENTIAL_BYTES
    for secret in (
        opaque(username="a", password=longest),
        docker({"r": {"registrytoken": longest}}),
    ):
        found = credential_from_secret(secret, "r")
        assert longest in (found.password, found.registry_token)


def test_what_is_too_long_isnt_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth_module.base64, "b64decode", None)
    with pytest.raises(UnusableSecretError, match="more than"):
        credential_from_secret({"data": {".dockerconfigjson": "A" * 1_000_000}}, "r")


@pytest.mark.parametrize(
    ("secret", "words"),
    [
        ({}, "no username and no password"),
        (opaque(password="s3cret"), "no username"),
        (opaque(username="", password="s3cret"), "no username"),
        ({"data": {"username": "%%%", "password": "%%%"}}, "isn't UTF-8"),
        (docker({"other": PAIR}), "no credentials for r"),
        (docker([]), "auths"),
        (docker({"r": "s3cret"}), "auths"),
        (docker({"r": {"auth": "s3cret%"}}), "invalid auth"),
        ({"data": {".dockerconfigjson": encoded("s3cret")}}, "auths"),
        ({"data": {".dockerconfigjson": encoded("[" * 10_000)}}, "auths"),
        (docker({"r": {"username": "s3cret", "password": "\ud800"}}), "auths"),
        (opaque(username="s3cret", password="s3cret" * 4000), "more than 16384 bytes under pass"),
        (opaque(username="s3cret" * 4000, password="s3cret"), "more than 16384 bytes under user"),
        (docker({"r": {**PAIR, "password": "s3cret" * 4000}}), "a password of more than 16384"),
        (docker({"r": {"auth": encoded("s3cret:" + "x" * 20_000)}}), "a password of more than"),
        (docker({"r": {"identitytoken": "s3cret" * 4000}}), "an identity token of more than"),
        (docker({"r": {"registrytoken": "s3cret" * 4000}}), "a registry token of more than"),
        (docker({"r": PAIR, "x": "s3cret" * 50_000}), "more than 262144 bytes under .dockerconf"),
    ],
)
def test_says_what_a_secret_lacks_and_never_what_it_has(secret: dict[str, Any], words: str) -> None:
    with pytest.raises(UnusableSecretError, match=words) as found:
        credential_from_secret(secret, "r")

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
        (
            ['Basic realm="b"', "BEARER realm=https://a/t"],
            [Challenge("basic", "b"), Challenge("bearer", "https://a/t")],
        ),
        (["Negotiate"], []),
        ([""], []),
        ([], []),
        (["Bearer"], [Challenge("bearer")]),
    ],
)
def test_reads_what_a_registry_asks_for(headers: list[str], expected: list[Challenge]) -> None:
    assert parse_challenges(headers) == expected


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
