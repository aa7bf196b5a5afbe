"""The operator's signature policy: parsed, matched with repositories, and what it blocks."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.fields import SpecError
from copyrator.bundles.policy.gates import Refused, Waiting
from copyrator.bundles.policy.signature_policy import (
    NO_POLICY,
    SignaturePolicy,
    normal,
    read_policy,
)

ANY_OF = [{"cosign": {"keysFrom": {"kind": "ConfigMap", "name": "keys"}}}]


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


def test_plain_http_has_another_default_port() -> None:
    assert normal("r:80", "a", insecure=True) == normal("r", "a", insecure=True) == "r/a"
    assert normal("r:80", "a", insecure=False) == "r:80/a"


def test_the_default_may_deny_what_no_entry_names() -> None:
    found = policy("r.example.com/*", default="Deny")
    assert found.blocked(spec("r.example.com", "a")) is None
    denied = found.blocked(spec("x.example.com", "a"))
    assert isinstance(denied, Refused)
    assert (denied.reason, denied.is_retried) == ("NotInPolicy", False)
    assert "x.example.com/a" in denied.message
    assert found.concerns(spec("x.example.com", "a"))


def test_a_policy_with_a_fault_blocks_everything() -> None:
    broken = SignaturePolicy(fault="isn't valid YAML")
    blocked = broken.blocked(spec("r", "a"))
    assert broken.concerns(spec("r", "a"))
    assert isinstance(blocked, Waiting)
    assert "isn't valid YAML" in blocked.message
    assert not NO_POLICY.concerns(spec("r", "a"))


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ([], "must be a map"),
        ({"defaults": "Deny"}, "policy.yaml.defaults: is unknown"),
        ({"default": "deny"}, "must be one of Allow, Deny"),
        ({"entries": {}}, "must be a list"),
        ({"entries": [{}] * 101}, "at most 100 items"),
        ({"entries": [{"anyOf": ANY_OF}]}, "repositories: is required"),
        ({"entries": [{"repositories": ["*"]}]}, "anyOf: is required"),
        ({"entries": [{"repositories": ["*"], "anyOf": ANY_OF, "x": 1}]}, "x: is unknown"),
        ({"entries": [{"repositories": ["https://r/*"], "anyOf": ANY_OF}]}, "without a scheme"),
        ({"entries": [{"repositories": [1], "anyOf": ANY_OF}]}, "must be a string"),
    ],
)
def test_what_is_not_valid_is_named(raw: Any, said: str) -> None:
    with pytest.raises(SpecError) as fault:
        read_policy(raw)
    assert said in str(fault.value)


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
