"""Whose a release is when several Bundles claim it."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from copyrator.api.keys import ReleaseKey
from copyrator.bundles.engine.bundle import BundleCache, BundleEntry, read_entry
from copyrator.bundles.fields import BundleDefaults

SECOND = "2026-11-21T10:00:00Z"
NEXT = "2026-11-21T10:00:01Z"
DEPLOYED = {"deployed": {"digest": "sha256:a", "namespace": "shop", "time": SECOND}}
LATER = {"deployed": {"digest": "sha256:a", "namespace": "shop", "time": NEXT}}
ELSEWHERE = {"deployed": {"digest": "sha256:a", "namespace": "old", "time": SECOND}}
BY_THE_ORIGINAL = {"deploy": {"digest": "sha256:a", "version": "1"}}
RUNS = {"attempted": {"attempt": 1, "outcome": "Running", "namespace": "shop"}}
FAILED = {"attempted": {"attempt": 1, "outcome": "Failed", "namespace": "shop"}}
SHOP = ReleaseKey("shop", "app")
SERVER = "https://other.example.com:6443"
THERE = {"server": SERVER}
"""The status of a Bundle whose kubeconfig names that server."""


def with_consent(
    state: str, status: dict[str, Any] | None = None, namespace: str = "shop"
) -> dict[str, Any]:
    return {**(status or {}), "consent": {"namespace": namespace, "state": state}}


YES = with_consent("Accepted")
OURS = "operator.werf.dev/uninstall"


def claim(
    uid: str,
    created: str = SECOND,
    status: dict[str, Any] | None = None,
    *,
    namespace: str = "",
    target: str = "shop",
    spec: dict[str, Any] | None = None,
    **metadata: Any,
) -> BundleEntry:
    """A Bundle of the release shop/app; its namespace is named after its uid."""
    body = {
        "metadata": {
            "namespace": namespace or f"team-{uid}",
            "name": "app",
            "uid": uid,
            "resourceVersion": "1",
            "creationTimestamp": created,
            **metadata,
        },
        "spec": {
            "registry": "r.example",
            "repo": "app",
            "project_namespace": target,
            **(spec or {}),
        },
        "status": status or {},
    }
    return read_entry(body, BundleDefaults())


def own(uid: str, status: dict[str, Any] | None = None) -> BundleEntry:
    """A Bundle in the release's own namespace, the newest of all."""
    return claim(uid, NEXT, status, namespace="shop")


@pytest.mark.parametrize(
    ("owner", "others"),
    [
        (claim("z"), [claim("a", NEXT)]),
        (claim("a"), [claim("b"), claim("c")]),
        (own("z"), [claim("a"), claim("b")]),
        (own("z"), [claim("a", status=FAILED)]),
        (own("z"), [claim("a", status=ELSEWHERE)]),
        (claim("z", status=DEPLOYED), [claim("a"), own("b")]),
        (claim("z", status=BY_THE_ORIGINAL), [claim("a"), own("b")]),
        (claim("z", NEXT, LATER), [claim("a", status=DEPLOYED), own("b", DEPLOYED)]),
        (claim("z", NEXT, RUNS), [claim("a", status=LATER), own("b")]),
        (claim("z", status=DEPLOYED, target="other"), [claim("a"), own("b")]),
        (claim("z", status=RUNS, target="other"), [claim("a"), own("b")]),
        (claim("z", NEXT), [claim("a", deletionTimestamp=NEXT, finalizers=["stranger"])]),
        (
            claim("z", NEXT),
            [claim("a", status=FAILED, deletionTimestamp=NEXT, finalizers=[OURS])],
        ),
        (claim("z", status=DEPLOYED, deletionTimestamp=NEXT, finalizers=[OURS]), [own("b")]),
        (claim("a", status=DEPLOYED), [claim("b", status=DEPLOYED)]),
        (claim("z", NEXT, with_consent("Accepted", DEPLOYED)), [own("b")]),
        (own("z"), [claim("a", status=YES)]),
        (own("z"), [claim("a", status=with_consent("Assumed", DEPLOYED))]),
        (own("z"), [claim("a", status=with_consent("NotAccepted", LATER))]),
        (own("z"), [claim("a", status=with_consent("NotAccepted", LATER), target="other")]),
        (
            claim("z", NEXT, with_consent("Assumed", DEPLOYED)),
            [
                claim(
                    "a", namespace="shop", status=FAILED, deletionTimestamp=NEXT, finalizers=[OURS]
                )
            ],
        ),
        (claim("z", NEXT, YES), [claim("a"), claim("b", status=with_consent("NotAccepted"))]),
        (claim("z", NEXT, YES), [claim("a", status=with_consent("NotAccepted", LATER))]),
        (claim("z", NEXT, YES), [claim("a", status=with_consent("Accepted", None, "old"))]),
        (claim("z", NEXT, with_consent("Assumed", DEPLOYED)), [claim("a", status=YES)]),
        (claim("z", NEXT, with_consent("NotAccepted", RUNS)), [own("b")]),
        (claim("z", NEXT, with_consent("NotAccepted", DEPLOYED)), [claim("a")]),
    ],
    ids=[
        "the older one",
        "of two made in one second always the same",
        "the one in the release's own namespace, though another is older",
        "the one in the release's own namespace, though another has tried and failed",
        "the one in the release's own namespace, though an older one deployed another release",
        "who has deployed it, though another is in the release's own namespace",
        "whom the original operator deployed it for",
        "who has deployed it last",
        "whose Job runs, though another has deployed it",
        "who has deployed it, though its spec names another by now",
        "whose Job runs, though its spec names another by now",
        "not who goes and is held back by a stranger",
        "not who goes and never deployed it",
        "who goes and has deployed it, until it is uninstalled",
        "of two that deployed it in one second, always the same",
        "who is accepted and has deployed it, though another is in the release's own namespace",
        "the one in the release's own namespace, where an accepted one never deployed it",
        "the one in its own namespace, though another deployed it before consent was asked",
        "the one in its own namespace, though another deployed it that isn't accepted",
        "the same where that one names another release by now",
        "who deployed it before consent was asked, not its own namespace's that goes",
        "who is accepted, though older ones aren't",
        "who is accepted, though one that isn't has deployed it",
        "who is accepted, though another namespace accepted an older one",
        "of two elsewhere who deployed it before consent was asked",
        "whose Job runs, though it isn't accepted",
        "of two that aren't accepted who has deployed it",
    ],
)
def test_a_release_belongs_to(owner: BundleEntry, others: list[BundleEntry]) -> None:
    for order in permutations([owner, *others]):
        registry = BundleCache()
        for entry in order:
            registry.take(entry)

        assert registry.bundles_of(SHOP)[0].key == owner.key


def test_a_bundle_that_is_gone_or_names_another_release_claims_nothing() -> None:
    registry = BundleCache()
    for entry in (claim("a"), claim("b"), claim("c", target="other")):
        registry.take(entry)
    registry.remove(claim("a").key, "a")

    assert [entry.uid for entry in registry.bundles_of(SHOP)] == ["b"]
    assert registry.owner(ReleaseKey("nowhere", "app")) is None


def remote(uid: str, status: dict[str, Any] | None = None, **metadata: Any) -> BundleEntry:
    """A Bundle of the release shop/app in the cluster of a kubeconfig."""
    spec = {"kubeConfig": {"secretName": "other"}}
    return claim(uid, status=THERE if status is None else status, spec=spec, **metadata)


@pytest.mark.needs("cluster")
def test_a_release_in_another_cluster_is_another_one() -> None:
    cache = BundleCache()
    deployed = {"server": SERVER, "deployed": {**DEPLOYED["deployed"], "server": SERVER}}
    third = {"server": "https://third.example.com"}
    entries = own("own"), remote("a", deployed), remote("b"), remote("c", third), remote("d", {})
    for entry in entries:
        cache.take(entry)

    def uids(release: ReleaseKey) -> list[str]:
        return [one.uid for one in cache.bundles_of(release)]

    assert uids(SHOP) == ["own"]
    assert uids(SHOP._replace(server=SERVER)) == ["a", "b"]
    assert uids(SHOP._replace(server=third["server"])) == ["c"]
    assert entries[-1].releases == (), "its kubeconfig wasn't read yet"


@pytest.mark.needs("cluster")
def test_in_another_cluster_no_namespace_is_the_releases_own() -> None:
    for order in permutations([remote("z", namespace="shop"), remote("a"), remote("b")]):
        cache = BundleCache()
        for entry in order:
            cache.take(entry)

        assert [one.uid for one in cache.bundles_of(SHOP._replace(server=SERVER))] == [
            "a",
            "b",
            "z",
        ]


def test_what_is_deployed_here_stays_here_though_the_spec_names_another_cluster() -> None:
    entry = remote("a", {"server": SERVER, **DEPLOYED})

    assert entry.installed_release == SHOP
    assert entry.releases == (SHOP,)
