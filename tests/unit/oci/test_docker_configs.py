"""Which entry of a Docker configuration is a repository's, what it has, and who reads it so."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest
from tests.steps import STEP_SECONDS, assert_quick

from copyrator.api.docker_config import DOCKER_CONFIG_BYTES
from copyrator.oci.auth import (
    DOCKER_CONFIG_GLOBS,
    Credential,
    StoredCredential,
    UnusableSecretError,
    docker_config,
    find_credential,
    matching_keys,
)
from copyrator.oci.exchange import Repository


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def pair(user: str) -> dict[str, Any]:
    return {"auth": encoded(f"{user}:s3cret")}


ALICE = Credential("alice", "s3cret")
PAIR = pair("alice")
APP = Repository("r.example.com", "team/app")
PLAIN = Repository("r.example.com", "team/app", plain_http=True)
PORT = Repository("r.example.com:5000", "team/app")
HUB = Repository("docker.io", "team/app")
NGINX = Repository("docker.io", "nginx")


def secret(config: Any, key: str = ".dockerconfigjson") -> dict[str, Any]:
    text = config if isinstance(config, str) else json.dumps(config)
    return {"data": {key: encoded(text)}, "type": f"kubernetes.io/{key.removeprefix('.')}"}


def read(auths: Any, repository: Repository = APP) -> StoredCredential:
    return find_credential(secret({"auths": auths}), repository)


@pytest.mark.parametrize(
    ("repository", "key"),
    [
        (APP, "r.example.com"),
        (APP, "R.Example.com"),
        (APP, "https://r.example.com"),
        (APP, "https://r.example.com/v1/"),
        (APP, "r.example.com/v2"),
        (APP, "https://r.example.com:443/v2/"),
        (PLAIN, "r.example.com:80"),
        (Repository("r.example.com:443", "team/app"), "r.example.com"),
        (PORT, "r.example.com:5000"),
        (PORT, "https://r.example.com:5000/v1/"),
        (Repository("[::1]:5000", "team/app"), "[::1]:5000"),
        (Repository("localhost:5000", "team/app"), "http://localhost:5000"),
        # A path: of a group, of the repository, below the API's.
        (APP, "r.example.com/team"),
        (APP, "https://r.example.com/team/app"),
        (APP, "r.example.com/v2/team"),
        (APP, "https://r.example.com:443/v1/team/app/"),
        # Wildcards, as kubelet's.
        (APP, "*.example.com"),
        (APP, "https://*.example.com/v2/"),
        (APP, "[a-z].example.com"),
        (APP, "[^a-q].EXAMPLE.com"),
        (APP, "*.example.com/team"),
        (APP, "*" * 16 + ".example.com"),
        (PORT, "*.example.com:5000/team/app"),
        # Docker Hub.
        *(
            (Repository(name, "team/app"), key)
            for name in ("docker.io", "index.docker.io", "registry-1.docker.io")
            for key in (
                "https://index.docker.io/v1/",
                "https://index.docker.io/v2/",
                "index.docker.io",
                "docker.io",
                "registry-1.docker.io",
                "registry.hub.docker.com",
                "registry.docker.io",
                "https://hub.docker.com/",
                "docker.io/team",
            )
        ),
        (NGINX, "docker.io/library/nginx"),
    ],
)
def test_a_key_that_means_the_repository(repository: Repository, key: str) -> None:
    auths = {"other.example.com": pair("bob"), key: PAIR}
    assert read(auths, repository).credential == ALICE


@pytest.mark.parametrize(
    ("repository", "key"),
    [
        (APP, "example.com"),
        (APP, "r.example.com.evil.org"),
        (APP, "r.example.com@evil.org"),
        (APP, "ftp://r.example.com"),
        (APP, "r.example.com:5000"),
        (PLAIN, "r.example.com:443"),
        (PORT, "r.example.com"),
        # Of a path only whole segments match, and only from its beginning.
        (APP, "r.example.com/team/ap"),
        (APP, "r.example.com/team/app/sub"),
        (APP, "r.example.com/Team"),
        (APP, "r.example.com//team"),
        (APP, "r.example.com/team?x"),
        # A wildcard is within a label, never of a port or a path.
        (APP, "*"),
        (APP, "*.r.example.com"),
        (APP, "*.*.*.*"),
        (APP, "[^r].example.com"),
        (APP, "*.example.com/*"),
        (APP, "*.example.com:5000"),
        (APP, "*" * 17 + ".example.com"),
        (APP, "[" + "r" * 250 + "].example.com"),
        (PORT, "*.example.com:*"),
        (PORT, "*.example.com:500?"),
        # Other hosts beside Docker Hub's, and Docker Hub's for other hosts.
        (HUB, "*.docker.io"),
        (HUB, "docker.io/other"),
        (NGINX, "docker.io/nginx"),
        (APP, "https://index.docker.io/v1/"),
        (APP, "/team/app"),
    ],
)
def test_a_key_that_means_something_else(repository: Repository, key: str) -> None:
    with pytest.raises(UnusableSecretError, match=f"has no credentials for {repository.registry}"):
        read({key: PAIR}, repository)


def test_the_longest_path_comes_first_and_a_host_before_wildcards() -> None:
    best_first = [
        "r.example.com/team/app",
        "https://r.example.com/v2/team/",
        "r.example.com",
        "*.example.com/team/app",
        "r.*.com/team",
        "*.example.com/team",
        "*.example.com",
    ]
    others = ["r.example.com/team/web", "*.example.org", "r.example.com:5000"]
    assert matching_keys([*others, *reversed(best_first)], APP) == best_first
    for number, key in enumerate(best_first):
        rest = {name: pair(name) for name in best_first[number + 1 :]}
        assert read({**rest, key: PAIR}).credential == ALICE


@pytest.mark.parametrize(
    ("registry", "best_first"),
    [
        # As for kubelet and containers/image: first the name that the image has.
        ("docker.io", ["docker.io", "https://index.docker.io/v1/", "registry.hub.docker.com"]),
        ("index.docker.io", ["index.docker.io", "docker.io", "registry-1.docker.io"]),
        ("registry-1.docker.io", ["registry-1.docker.io", "index.docker.io", "docker.io"]),
        ("docker.io", ["docker.io/team", "docker.io", "https://hub.docker.com/"]),
    ],
)
def test_of_docker_hubs_names_the_one_that_clients_use_comes_first(
    registry: str, best_first: list[str]
) -> None:
    found = matching_keys(reversed(best_first), Repository(registry, "team/app"))
    assert found == best_first


EMPTY = [
    {},
    None,
    {"email": "alice@example.com"},
    {"auth": ""},
    {"auth": encoded(":")},
    {"auth": encoded("alice:")},
    {"auth": encoded("alice:"), "username": "alice", "password": "stale"},
    {"username": "", "password": ""},
    {"username": "alice"},
    {"username": "alice", "password": 5},
    {"identitytoken": "", "registrytoken": " "},
]


@pytest.mark.parametrize("entry", EMPTY)
def test_an_entry_without_credentials_is_none_and_the_next_one_counts(entry: Any) -> None:
    assert read({"r.example.com/team": entry, "r.example.com": PAIR}).credential == ALICE
    assert read({"r.example.com": entry, "*.example.com": PAIR}).credential == ALICE
    with pytest.raises(UnusableSecretError, match="its entry for it has no password and no token"):
        read({"r.example.com": entry, "other.example.com": PAIR})


WRITTEN = (
    ("s3cret\n\n", "s3cret\n"),
    ("s3cret ", "s3cret "),
    ("s3cret\t", "s3cret\t"),
    ("s3cret \r\n", "s3cret "),
    (" s3cret\n", " s3cret"),
    ("\ns3cret", "\ns3cret"),
)
LONG = "s3cret" * 20
LONG_AUTH = encoded(f"alice:{LONG}")
URL_AUTH = base64.urlsafe_b64encode("alice:ÿ>?ÿ?>".encode()).decode()


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (PAIR, ALICE),
        ({"username": "alice", "password": "s3cret"}, ALICE),
        ({"Username": "alice", "PASSWORD": "s3cret"}, ALICE),
        ({"auth": encoded("alice:s3cret"), "username": "alice", "password": "stale"}, ALICE),
        ({"auth": "", "username": "alice", "password": "s3cret"}, ALICE),
        *(({"auth": encoded(f"alice:s3cret{end}")}, ALICE) for end in ("\n", "\r\n", "\0", "\n\0")),
        # One line end is left out, and nothing else of a password.
        *(
            ({"auth": encoded(f"alice:{written}")}, Credential("alice", password))
            for written, password in WRITTEN
        ),
        *(
            ({"username": "alice", "password": written}, Credential("alice", password))
            for written, password in WRITTEN
        ),
        ({"auth": encoded("alice:s3 cret:x\n")}, Credential("alice", "s3 cret:x")),
        *(({"auth": encoded(f"alice{end}:s3cret{end}")}, ALICE) for end in ("\n", "\r\n")),
        # Base64: without padding, wrapped, with a line feed of its own, of the URL alphabet.
        ({"auth": encoded("alice:s3cre").rstrip("=")}, Credential("alice", "s3cre")),
        ({"auth": encoded("alice:s3cret") + "\n"}, ALICE),
        ({"auth": f"{LONG_AUTH[:76]}\r\n{LONG_AUTH[76:]}"}, Credential("alice", LONG)),
        ({"auth": URL_AUTH}, Credential("alice", "ÿ>?ÿ?>")),
        ({"auth": URL_AUTH.replace("-", "+").replace("_", "/")}, Credential("alice", "ÿ>?ÿ?>")),
        # Tokens.
        ({"identitytoken": "t"}, Credential(identity_token="t")),
        ({"registrytoken": "t"}, Credential(registry_token="t")),
        (
            {"auth": encoded("00000000-0000-0000-0000-000000000000:"), "identitytoken": "t"},
            Credential("00000000-0000-0000-0000-000000000000", identity_token="t"),
        ),
    ],
)
def test_credentials_in_each_form(entry: dict[str, Any], expected: Credential) -> None:
    assert read({"r.example.com": entry}).credential == expected


@pytest.mark.parametrize(
    "auth",
    ["s3cret%", "=" + encoded("alice:s3cret"), "YWxp=Y2U6eA", encoded("alice:s3cret")[:-3], "/w=="],
)
def test_an_auth_that_is_no_base64_is_named_and_no_other_entry_is_taken(auth: str) -> None:
    with pytest.raises(UnusableSecretError, match=r"invalid auth field for r\.example") as found:
        read({"r.example.com": {"auth": auth}, "*.example.com": PAIR})
    assert auth not in str(found.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no credentials for r.example.com/team/app under .dockerconfigjson"),
        ("null", "no credentials for"),
        ('{"auths": {}}', "no credentials for"),
        ('{"auths": {}, "credsStore": "desktop"}', "credsStore in it can't be used: put the"),
        (
            '{"auths": {"r.example.com": {}}, "credsStore": "desktop", "credHelpers": {"a": "b"}}',
            "credHelpers and credsStore in it can't be used: put the credentials into its auths",
        ),
        ('{"credHelpers": {"r.example.com": "ecr-login"}}', "credHelpers in it can't be used"),
        ('{"auths": {"r.example.com": []}}', 'isn\'t a Docker configuration of the form {"auths"'),
        ('{"r.example.com": {"auth": "YTpi"}}', "isn't a Docker configuration"),
        ("[]", "isn't a Docker configuration"),
    ],
)
def test_a_configuration_without_credentials_says_what_helps(text: str, words: str) -> None:
    with pytest.raises(UnusableSecretError) as found:
        find_credential(secret(text), APP)
    assert words in str(found.value)


def test_an_entry_is_used_whatever_other_entries_and_helpers_there_are() -> None:
    config = {
        "auths": {"a.example.com": "x", "b.example.com": [], "r.example.com": PAIR},
        "credsStore": "desktop",
        "HttpHeaders": {"User-Agent": "Docker-Client"},
    }
    assert find_credential(secret(config), APP).credential == ALICE


@pytest.mark.parametrize("key", [".dockercfg", ".dockerconfigjson"])
def test_the_type_tells_which_of_two_configurations_counts(key: str) -> None:
    both = secret({"r.example.com": pair("old")}, ".dockercfg")
    both["data"] |= secret({"auths": {"r.example.com": pair("new")}})["data"]
    both["type"] = f"kubernetes.io/{key.removeprefix('.')}"
    wanted = "old" if key == ".dockercfg" else "new"
    assert find_credential(both, APP).credential == Credential(wanted, "s3cret")


def test_the_older_form_is_read_and_never_mounted() -> None:
    for config in ({"r.example.com": PAIR}, {"auths": {"r.example.com": PAIR}}):
        found = find_credential(secret(config, ".dockercfg"), APP)
        assert found == StoredCredential(ALICE, is_docker_config=True, is_alone=False)
    with pytest.raises(UnusableSecretError, match=r"under \.dockercfg"):
        find_credential(secret({"other": PAIR}, ".dockercfg"), APP)


BOTH = {**PAIR, "username": "alice", "password": "s3cret"}


@pytest.mark.parametrize(
    ("repository", "key", "entry"),
    [
        (APP, "r.example.com", PAIR),
        (APP, "https://r.example.com/v1/", PAIR),
        (PORT, "r.example.com:5000", PAIR),
        (APP, "r.example.com", BOTH),
        (APP, "r.example.com", {"username": "alice", "password": "s3cret", "auth": ""}),
        (APP, "r.example.com", {"identitytoken": "t", "auth": encoded("alice:")}),
        (APP, "r.example.com", {"registrytoken": "t"}),
        (HUB, "https://index.docker.io/v1/", PAIR),
    ],
)
def test_a_secret_with_what_all_clients_read_alike_is_mounted_as_it_is(
    repository: Repository, key: str, entry: dict[str, Any]
) -> None:
    if "identitytoken" in entry:
        entry = {**entry, "username": "alice"}
    assert read({key: entry}, repository).is_alone


@pytest.mark.parametrize(
    ("repository", "config"),
    [
        # Others are in it, even without credentials.
        (APP, {"auths": {"r.example.com": PAIR, "other.example.com": pair("bob")}}),
        (APP, {"auths": {"r.example.com": PAIR, "other.example.com": {}}}),
        (APP, {"auths": {"r.example.com": PAIR, "r.example.com/team": pair("alice")}}),
        (APP, {"auths": {"r.example.com": PAIR}, "credsStore": "desktop"}),
        # Clients don't find it by its key, or find it for other repositories too.
        *(
            (APP, {"auths": {key: PAIR}})
            for key in (
                "R.example.com",
                "HTTPS://r.example.com",
                "r.example.com:443",
                "r.example.com/team",
                "r.example.com/v2/team",
                "*.example.com",
            )
        ),
        (HUB, {"auths": {"docker.io": PAIR}}),
        (HUB, {"auths": {"index.docker.io": PAIR}}),
        (Repository("registry-1.docker.io", "a"), {"auths": {"registry-1.docker.io": PAIR}}),
        (Repository("registry-1.docker.io", "a"), {"auths": {"https://index.docker.io/v1/": PAIR}}),
        # Clients read another credential in it.
        *(
            (APP, {"auths": {"r.example.com": entry}})
            for entry in (
                {"auth": encoded("alice:s3cret\n")},
                {"auth": encoded("alice:s3cre").rstrip("=")},
                {"auth": encoded("alice:s3cret") + "\n"},
                {**PAIR, "username": "alice", "password": "stale"},
                {"username": "alice", "password": "s3cret\n"},
                {"username": "alice", "password": "s3cret \r\n"},
                {"Username": "alice", "Password": "s3cret"},
                {**PAIR, "identitytoken": "t\n"},
                {**PAIR, "auths": {"x": "y"}},
            )
        ),
    ],
)
def test_of_any_other_secret_the_job_gets_the_one_credential_alone(
    repository: Repository, config: dict[str, Any]
) -> None:
    found = find_credential(secret(config), repository)
    assert not found.is_alone
    text = docker_config(found.credential, repository.registry)
    again = find_credential(secret(text), repository)
    assert again.credential == found.credential
    assert again.is_alone == (repository.registry != "registry-1.docker.io")
    assert not {"bob", "stale"} & set(text.replace('"', " ").split())


@pytest.mark.parametrize(
    "text",
    [
        '{"auths": {"q": {"auth": "Yjpj"}}, "auths": {"r.example.com": PAIR}}',
        '{"\\u0061uths": {"q": {"auth": "Yjpj"}}, "auths": {"r.example.com": PAIR}}',
        '{"auths": {"r.example.com": {"auth": "Yjpj"}, "r.example.com": PAIR}}',
        '{"auths": {"r.example.com": {"auth": "Yjpj", "auth": "YWxpY2U6czNjcmV0"}}}',
        '{"credsStore": "x", "credsStore": "", "auths": {"r.example.com": PAIR}}',
    ],
)
def test_a_configuration_with_a_key_twice_isnt_mounted(text: str) -> None:
    """Go's parser merges maps of one key, so docker and werf would read both."""
    found = find_credential(secret(text.replace("PAIR", json.dumps(PAIR))), APP)
    assert found == StoredCredential(ALICE, is_docker_config=True, is_alone=False)
    html = json.dumps({"auths": {"r.example.com": PAIR}}).replace("=", "\\u003d")
    assert find_credential(secret(html), APP).is_alone


@pytest.mark.parametrize(
    ("registry", "keys"),
    [
        ("r.example.com", ["r.example.com"]),
        ("docker.io", ["https://index.docker.io/v1/"]),
        ("index.docker.io", ["https://index.docker.io/v1/"]),
        ("registry-1.docker.io", ["https://index.docker.io/v1/", "registry-1.docker.io"]),
    ],
)
def test_a_job_finds_the_credential_under_the_name_that_it_asks_for(
    registry: str, keys: list[str]
) -> None:
    config = json.loads(docker_config(ALICE, registry))
    assert config == {"auths": dict.fromkeys(keys, BOTH)}


def test_tokens_are_written_without_a_pair() -> None:
    for field in ("identity_token", "registry_token"):
        config = json.loads(docker_config(Credential(**{field: "t"}), "r"))
        assert config == {"auths": {"r": {field.replace("_", ""): "t"}}}


@pytest.mark.parametrize(
    "key",
    [
        "%d.example.com",
        "*%d*.*.*",
        "*" + "?*" * 60 + "%d.*.*",
    ],
)
def test_no_configuration_takes_long(key: str) -> None:
    """Of the largest that is parsed."""
    number = DOCKER_CONFIG_BYTES // (len(key) + 10)
    found = secret({"auths": {key % i: {} for i in range(number)}})

    def find() -> None:
        with pytest.raises(UnusableSecretError):
            find_credential(found, APP)

    assert_quick(find, STEP_SECONDS)


@pytest.mark.parametrize(
    "key",
    [
        "*a" * 480 + "%d.example.com",
        "*[ab]" * 190 + "%d.example.com",
        "*a" * 7 + "b" * 200 + "*%d.example.com",
    ],
)
def test_no_wildcards_take_long(key: str) -> None:
    """As many keys as are compared; those of a hundred wildcards took 0.3 s together."""
    keys = [key % i for i in range(DOCKER_CONFIG_GLOBS)]
    repository = Repository("a" * 63 + ".example.com", "team/app")

    def match() -> None:
        re.purge()
        assert matching_keys(keys, repository) == []

    assert_quick(match, STEP_SECONDS)


def test_more_wildcards_than_are_compared_are_named() -> None:
    others = {f"x{i}r.example.com": {} for i in range(DOCKER_CONFIG_GLOBS + 1)}
    assert read({**others, "r.example.com": PAIR}).credential == ALICE, "those aren't wildcards"
    patterns = {f"*x{i}.example.com": {} for i in range(DOCKER_CONFIG_GLOBS)}
    with pytest.raises(UnusableSecretError, match=f"more than {DOCKER_CONFIG_GLOBS} keys with wil"):
        read({**patterns, "*.example.com": PAIR})
    patterns.popitem()
    assert read({**patterns, "*.example.com": PAIR}).credential == ALICE
