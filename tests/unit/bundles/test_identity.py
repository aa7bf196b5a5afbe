"""Hashes of inputs: equal inputs deploy nothing, and no secret can be guessed from a hash."""

import hashlib

import pytest

from copyrator.api.bundle_spec import ValuesKind
from copyrator.bundles.identity import (
    ValuesFiles,
    job_name,
    release_metadata,
    spec_hash,
    values_hash,
)

SPEC = {"registry": "r", "repo": "app", "version": "1.0.0", "env": {"A": 1}}


def keyed(content: bytes) -> str:
    return hashlib.blake2b(content, key=b"key").hexdigest()


def config(name: str = "values", **content: str) -> ValuesFiles:
    files = {f"{key}.yaml": text.encode() for key, text in content.items()}
    return ValuesFiles(ValuesKind.CONFIG_MAP, name, files)


def secret(**content: str) -> ValuesFiles:
    return ValuesFiles(ValuesKind.SECRET, "secret", config(**content).content)


@pytest.mark.parametrize(
    "changes",
    [
        {"registry": "other"},
        {"repo": "other"},
        {"project_namespace": "other"},
        {"env": {"A": 2}},
        {"env": {"A": "1"}},
        {"values": "other"},
        {"serviceAccountName": "other"},
        {"werf": {"version": "2"}},
        {"autoRollback": True},
        {"releasesHistoryMax": 3},
    ],
)
def test_what_changes_the_release_changes_the_hash(changes: dict[str, object]) -> None:
    assert spec_hash(SPEC | changes, {}, {}) != spec_hash(SPEC, {}, {})


@pytest.mark.parametrize(
    "changes",
    [
        {"interval": "1h"},
        {"suspend": True},
        {"retry": {"limit": 1}},
        {"version": "1.1.0"},  # stands in the status by itself, as the tag that it led to
        {"auth": "other"},
        {"job": {"ttlSecondsAfterFinished": 1}},
        {"deletionPolicy": "Orphan"},
        {"project_namespace": None},
    ],
)
def test_what_changes_nothing_in_the_release_keeps_the_hash(changes: dict[str, object]) -> None:
    assert spec_hash(SPEC | changes, {}, {}) == spec_hash(SPEC, {}, {})


def test_only_metadata_that_reaches_the_release_counts() -> None:
    plain = spec_hash(SPEC, {}, {})

    assert spec_hash(SPEC, {"team": "x"}, {"operator.werf.dev/requestedAt": "now"}) == plain
    assert spec_hash(SPEC, {"app.kubernetes.io/part-of": "x"}, {}) != plain
    assert spec_hash(SPEC, {}, {"argocd.argoproj.io/x": "y"}) != plain


def test_release_metadata_takes_the_three_prefixes_in_stable_order() -> None:
    found = {"b": "1", "argocd.argoproj.io/x": "2", "app.k8s.io/y": "3", "app.kubernetes.io/z": "4"}

    assert list(release_metadata(found)) == [
        "app.k8s.io/y",
        "app.kubernetes.io/z",
        "argocd.argoproj.io/x",
    ]


def test_a_bundle_without_values_has_no_hash() -> None:
    assert values_hash((), "uid", keyed) is None


@pytest.mark.parametrize(
    "other",
    [
        (config(a="2"),),
        (config(b="1"),),
        (config(a="1", b=""),),
        (config("other", a="1"),),
        (config(a="1"), config("second")),
        (),
    ],
)
def test_other_values_have_another_hash(other: tuple[ValuesFiles, ...]) -> None:
    assert values_hash(other, "uid", keyed) != values_hash((config(a="1"),), "uid", keyed)


def test_the_order_of_sources_counts_because_a_later_one_wins() -> None:
    one, two = config("one", a="1"), config("two", a="2")

    assert values_hash((one, two), "uid", keyed) != values_hash((two, one), "uid", keyed)


def test_config_maps_alone_are_hashed_without_the_key() -> None:
    def lost(_: bytes) -> str:
        raise AssertionError("the key isn't needed")

    assert values_hash((config(a="1"),), "uid", lost) == values_hash((config(a="1"),), "u", lost)


def test_secrets_are_hashed_with_the_key_and_the_uid() -> None:
    found = values_hash((config(a="1"), secret(password="x")), "uid", keyed)

    assert found is not None
    assert found.startswith("keyed:")
    assert found != values_hash((config(a="1"), secret(password="x")), "other", keyed)
    assert found != values_hash((config(a="1"), secret(password="x")), "uid", lambda _: "0" * 64)


def test_job_names_say_what_they_are_for() -> None:
    assert job_name("shop", "deploy", "uid", 1).startswith("shop-deploy-")
    assert job_name("shop", "deploy", "uid", 1) == job_name("shop", "deploy", "uid", 1)
    assert job_name("shop", "deploy", "uid", 12) != job_name("shop", "deploy", "uid1", 2)
