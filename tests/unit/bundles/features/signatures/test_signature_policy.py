"""The operator's signature policy: parsed, matched with repositories, and what it blocks."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.schema import SpecError
from copyrator.bundles.engine.gate import Refused, Waiting
from copyrator.bundles.features.signatures.policy import (
    NO_POLICY,
    SIGNATURE_POLICY_BYTES,
    SIGNATURE_POLICY_ENTRIES,
    Default,
    SignaturePolicy,
    names_of,
    policy_in,
    read_policy,
)

ANY_OF = [{"cosign": {"keysFrom": {"kind": "ConfigMap", "name": "keys"}}}]
ENTRY = {"repositories": ["*"], "anyOf": ANY_OF}


def spec(registry: str, repo: str, *, insecure: bool = False) -> BundleSpec:
    names = {"namespace": "a", "name": "b", "project_namespace": "a"}
    return BundleSpec(**names, registry=registry, repo=repo, insecure=insecure)


def policy(*globs: str, default: str = "Allow") -> SignaturePolicy:
    entries = [{"repositories": [one], "anyOf": ANY_OF} for one in globs]
    return read_policy({"default": default, "entries": entries})


@pytest.mark.parametrize(
    ("glob", "registry", "repo"),
    [
        ("registry.example.com/team/*", "registry.example.com", "team/a/b"),
        ("registry.example.com/team/*", "Registry.Example.Com:443", "team/a"),
        ("Registry.Example.com:443/*", "registry.example.com", "team/a"),
        ("registry.example.com/team/*", "registry.example.com:0443", "team/a"),
        ("registry.example.com:00443/*", "registry.example.com", "team/a"),
        ("registry.example.com:5000/*", "registry.example.com:05000", "a"),
        ("registry.example.com:*", "registry.example.com", "a"),
        ("[::1]/*", "[::1]:443", "a"),
        ("registry.example.com:5000/*", "registry.example.com:5000", "a"),
        ("docker.io/acme/*", "index.docker.io", "acme/app"),
        ("registry-1.docker.io/acme/*", "docker.io", "acme/app"),
        ("docker.io/nginx", "docker.io", "nginx"),
        ("docker.io/library/nginx", "registry.hub.docker.com", "nginx"),
        ("*/app", "x.example.com", "team/app"),
        ("*", "x.example.com", "team/app"),
    ],
)
def test_a_repository_is_matched_by_whichever_name(glob: str, registry: str, repo: str) -> None:
    assert len(policy(glob).matching(spec(registry, repo))) == 1
    assert policy(glob).concerns(spec(registry, repo))


@pytest.mark.parametrize(
    ("glob", "registry", "repo"),
    [
        ("registry.example.com/team", "registry.example.com", "team/a"),
        ("registry.example.com/*", "registry.example.com:5000", "a"),
        ("registry.example.com/*", "evil-registry.example.com", "a"),
        ("docker.io/acme/*", "docker.io.example.com", "acme/app"),
    ],
)
def test_another_repository_is_not(glob: str, registry: str, repo: str) -> None:
    found = policy(glob)
    assert found.matching(spec(registry, repo)) == ()
    assert not found.concerns(spec(registry, repo))
    assert found.blocked(spec(registry, repo)) is None


def test_all_entries_that_match_are_asked() -> None:
    found = policy("r.example.com/*", "q.example.com/*", "*").matching(spec("r.example.com", "a"))
    assert [one.name for one in found] == [
        "entry 1 of the signature policy",
        "entry 3 of the signature policy",
    ]


@pytest.mark.parametrize("insecure", [False, True])
@pytest.mark.parametrize("registry", ["", ":80", ":00080", ":443", ":0443"])
@pytest.mark.parametrize("glob", ["", ":80", ":080", ":443", ":*"])
def test_the_ports_of_http_and_https_are_one_registry(
    glob: str, registry: str, insecure: bool
) -> None:
    """Else an unsigned bundle would pass `default: Allow` by port 80, which redirects to 443."""
    asked = spec(f"R.example.com{registry}", "team/app", insecure=insecure)
    for default in ("Allow", "Deny"):
        found = policy(f"r.example.com{glob}/team/*", default=default)
        assert len(found.matching(asked)) == 1
        assert found.concerns(asked)
        assert found.blocked(asked) is None


@pytest.mark.parametrize("insecure", [False, True])
@pytest.mark.parametrize("registry", ["docker.io", "Index.Docker.io", "registry.hub.docker.com"])
@pytest.mark.parametrize("port", ["", ":80", ":443"])
def test_so_are_docker_hubs_names(registry: str, port: str, insecure: bool) -> None:
    asked = spec(f"{registry}{port}", "nginx", insecure=insecure)
    for glob in ("docker.io/nginx", "registry-1.docker.io:443/library/*", "docker.io:80/nginx"):
        assert policy(glob).matching(asked)
    assert not policy("docker.io/acme/*").matching(asked)


@pytest.mark.parametrize("insecure", [False, True])
@pytest.mark.parametrize(
    ("glob", "port"),
    [
        ("r.example.com/*", ":5000"),
        ("r.example.com/*", ":8080"),
        ("r.example.com:80/*", ":8080"),
        ("r.example.com:443/*", ":44"),
        ("r.example.com:5000/*", ""),
        ("r.example.com:5000/*", ":80"),
        ("*:443/*", ":5000"),
    ],
)
def test_another_port_is_another_registry(glob: str, port: str, insecure: bool) -> None:
    asked = spec(f"r.example.com{port}", "team/app", insecure=insecure)
    assert policy(glob).matching(asked) == ()
    assert policy(glob, default="Deny").blocked(asked) is not None


def test_a_repository_has_one_set_of_names() -> None:
    names = ("r/a", "r:443/a", "r:80/a")
    assert names_of("r", "a") == names_of("R:080", "a") == names_of("r:443", "a") == names
    assert names_of("r:5000", "a") == ("r:5000/a",)


def test_the_default_may_deny_what_no_entry_names() -> None:
    found = policy("r.example.com/*", default="Deny")
    assert found.blocked(spec("r.example.com", "a")) is None
    denied = found.blocked(spec("x.example.com", "a"))
    assert denied == Refused(
        "NotInPolicy",
        "the operator's signature policy has no entry for x.example.com/a, and denies what it "
        "doesn't name; add one to the ConfigMap copyrator-signature-policy",
    )
    assert found.concerns(spec("x.example.com", "a"))


def test_a_policy_with_a_fault_blocks_everything() -> None:
    broken = SignaturePolicy(fault="isn't valid YAML")
    blocked = broken.blocked(spec("r", "a"))
    assert broken.concerns(spec("r", "a"))
    assert blocked == Waiting(
        "VerificationUnavailable", "the operator's signature policy can't be used: isn't valid YAML"
    )
    assert not NO_POLICY.concerns(spec("r", "a"))


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ([], "must be a map"),
        ({"x": 1}, "policy.yaml.x: is unknown; a policy has default and entries"),
        ({"default": "deny"}, "must be one of Allow, Deny"),
        ({"entries": {}}, "must be a list"),
        ({"entries": [{}] * 101}, "policy.yaml.entries: has 101 items; at most 100 are allowed"),
        (
            {"entries": [ENTRY, {"anyOf": ANY_OF}]},
            "policy.yaml.entries[1].repositories: is required, for example registry.example.com/",
        ),
        ({"entries": [{"repositories": ["*"]}]}, "anyOf: is required"),
        (
            {"entries": [ENTRY | {"x": 1}]},
            "policy.yaml.entries[0].x: is unknown; an entry has repositories and anyOf",
        ),
        ({"entries": [ENTRY, 1]}, "policy.yaml.entries[1]: must be a map"),
        (
            {"entries": [ENTRY | {"repositories": ["a", "https://b"]}]},
            "policy.yaml.entries[0].repositories[1]: must be a glob for host/path without a scheme",
        ),
        ({"entries": [{"repositories": ["r/a b"], "anyOf": ANY_OF}]}, "without a scheme"),
        ({"entries": [{"repositories": [1], "anyOf": ANY_OF}]}, "must be a string"),
    ],
)
def test_what_is_not_valid_is_named(raw: Any, said: str) -> None:
    with pytest.raises(SpecError) as fault:
        read_policy(raw)
    assert said in str(fault.value)


def test_a_policy_may_have_the_most_entries_and_allows_by_default() -> None:
    found = read_policy({"entries": [ENTRY] * SIGNATURE_POLICY_ENTRIES})
    assert (len(found.entries), found.default) == (SIGNATURE_POLICY_ENTRIES, Default.ALLOW)
    assert read_policy(None) == NO_POLICY


# --- the ConfigMap ---


def config_map(written: str) -> dict[str, Any]:
    return {"data": {"policy.yaml": written}}


def test_the_policy_is_under_a_key_of_the_config_map() -> None:
    longest = "default: Deny".ljust(SIGNATURE_POLICY_BYTES)
    assert policy_in(config_map(longest)) == SignaturePolicy(default=Default.DENY)
    assert policy_in(config_map("")) == NO_POLICY


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "policy.yaml: is missing from its data"),
        ({"data": "policy.yaml"}, "policy.yaml: is missing from its data"),
        ({"data": {"policy.yaml": 5}}, "policy.yaml: is missing from its data"),
        ({"data": None}, "policy.yaml: is missing from its data"),
        ({"data": {"policy": "default: Deny"}}, "policy.yaml: is missing from its data"),
        (config_map(" " * (SIGNATURE_POLICY_BYTES + 1)), "policy.yaml: has over 65,536 characters"),
        (config_map("entries:\n  - ]"), "policy.yaml: isn't valid YAML in line 2"),
        (config_map("[" * 1500), "policy.yaml: isn't valid YAML"),
        (config_map("default: Denied"), "policy.yaml.default: must be one of Allow, Deny"),
    ],
)
def test_a_config_map_without_a_valid_policy_is_a_fault(body: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as fault:
        policy_in(body)
    assert str(fault.value) == said


@pytest.mark.parametrize(
    "value", ["2001-13-45", "!!int x", "!!float x", "!!bool x", "!!timestamp x", "1" * 5000]
)
def test_a_scalar_that_its_type_cannot_have_is_a_fault(value: str) -> None:
    with pytest.raises(SpecError, match="isn't valid YAML"):
        policy_in(config_map(f"default: {value}"))


TOKENS = """!!int !!float !!binary !!timestamp !!map !!python/name:os <<: &a *a 2001-01-01 1:1.5
[ ] { } : - ? , default entries"""


@given(st.lists(st.sampled_from(TOKENS.split()) | st.text(max_size=3)).map("".join))
def test_nothing_but_a_fault_is_raised_for_a_text(written: str) -> None:
    with contextlib.suppress(SpecError):
        assert isinstance(policy_in(config_map(written)), SignaturePolicy)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["default", "entries", "repositories", "anyOf", "cosign"]), inner
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_nothing_but_a_fault_is_raised(raw: Any) -> None:
    with contextlib.suppress(SpecError):
        assert isinstance(read_policy(raw), SignaturePolicy)
