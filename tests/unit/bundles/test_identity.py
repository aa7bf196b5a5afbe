"""Hashes of inputs: equal inputs deploy nothing, and no secret can be guessed from a hash."""

import base64
import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.api.object_refs import ValuesKind
from copyrator.bundles.jobs.identity import (
    Hash,
    ValuesHash,
    job_name,
    release_metadata,
    spec_hash,
)
from copyrator.copies.seal.sealing import Sealer

SPEC = {"registry": "r", "repo": "app", "version": "1.0.0", "env": {"A": 1}}


Source = tuple[ValuesKind, str, dict[str, bytes]]


def keyed() -> Hash:
    return hashlib.blake2b(key=b"key")


def config(name: str = "values", **content: str) -> Source:
    files = {f"{key}.yaml": text.encode() for key, text in content.items()}
    return ValuesKind.CONFIG_MAP, name, files


def secret(**content: str) -> Source:
    return ValuesKind.SECRET, "secret", config(**content)[2]


def values_hash(
    sources: Iterable[Source], uid: str, hasher: Callable[[], Hash] | None
) -> str | None:
    found = ValuesHash(uid, hasher)
    for source in sources:
        deque(found.add(*source), maxlen=0)
    return found.result()


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


def test_job_names_say_what_they_are_for() -> None:
    assert job_name("shop", "deploy", "uid", 1).startswith("shop-deploy-")
    assert job_name("shop", "deploy", "uid", 1) == job_name("shop", "deploy", "uid", 1)
    assert job_name("shop", "deploy", "uid", 12) != job_name("shop", "deploy", "uid1", 2)


def test_specs_and_names_are_those_of_the_versions_before_so_that_an_upgrade_deploys_nothing():
    spec = {
        "registry": "r",
        "repo": "a",
        "project_namespace": "n",
        "values": {"b": "ä", "a": [1, None]},
        "interval": "1h",
    }
    turned = dict(reversed(spec.items())) | {"values": {"a": [1, None], "b": "ä"}}
    for found in (spec, turned):
        assert spec_hash(found, {"app.kubernetes.io/x": "1"}, {}) == (
            "90cb5dcd55565417a8d3acf83cdef681"
        )
    assert job_name("shop", "deploy", "uid", 1, None) == "shop-deploy-f1d54fa2a9"
    assert job_name("a.b-" + "c" * 99, "x", 1)[:-10] == "a-b-" + "c" * 46 + "-x-"


def test_a_name_that_is_cut_at_a_hyphen_ends_before_it():
    assert job_name("y" * 44 + "-z", "deploy", 1)[:-10] == "y" * 44 + "-deploy-"
    assert job_name("-" + "y" * 44 + "-z", "deploy", 1)[:-10] == "-" + "y" * 44 + "-deploy-"


LARGE = bytes(range(256)) * 3000


@pytest.mark.parametrize(
    ("sources", "recorded"),
    [
        ([config(values="a: 1\n")], "dc2c1d4225754c45a012e7a77da0aaa3"),
        ([config("empty")], "bae79988aa0deb6a2541fb624027dbb7"),
        (
            [
                (ValuesKind.CONFIG_MAP, "a", {"b.yaml": b"", "a.yaml": b"x"}),
                (ValuesKind.CONFIG_MAP, "b", {"z": "ä€🙂".encode()}),
            ],
            "6182493d30d026bb03fc1fc0c9e35b4c",
        ),
        (
            [(ValuesKind.SECRET, "secret", {"password": b"hunter2\xff\x00"})],
            "keyed:7ac4a9ee9f48689736a8537bd0630fb2",
        ),
        (
            [
                config(values="a: 1\n"),
                (
                    ValuesKind.SECRET,
                    "big",
                    {"one": LARGE, "two": LARGE[1:], "three": LARGE[2:]},
                ),
            ],
            "keyed:2e69970db25450dce985af5946b7d077",
        ),
        ([(ValuesKind.SECRET, "none", {})], "keyed:1954e4e675acb008e27aa6cec99a3a45"),
    ],
    ids=["a ConfigMap", "an empty one", "two", "a Secret", "large ones", "an empty Secret"],
)
def test_hashes_are_those_of_the_versions_before_so_that_an_upgrade_deploys_nothing(
    sources: list[Source], recorded: str
) -> None:
    sealer = Sealer(bytes(range(32)))

    assert values_hash(sources, "0a1b-uid", sealer.new_hash) == recorded


SOURCES = st.lists(
    st.tuples(
        st.sampled_from(ValuesKind),
        st.text(max_size=5),
        st.dictionaries(st.text(max_size=5), st.binary(max_size=20), max_size=3),
    ),
    min_size=1,
    max_size=4,
)


@given(SOURCES)
def test_what_is_hashed_piece_by_piece_is_the_json_of_the_whole(sources: list[Source]) -> None:
    whole = [
        [kind.value, name, {key: base64.b64encode(text).decode() for key, text in files.items()}]
        for kind, name, files in sources
    ]
    content = json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()
    found = values_hash(sources, "uid", keyed)

    if all(kind is ValuesKind.CONFIG_MAP for kind, _, _ in sources):
        assert found == hashlib.sha256(content).hexdigest()[:32]
    else:
        salted = hashlib.blake2b(b"uid\0" + content, key=b"key").hexdigest()
        assert found == f"keyed:{salted[:32]}"
