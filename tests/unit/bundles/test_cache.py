"""Whose a release is when several Bundles claim it."""

from __future__ import annotations

import ast
import gc
import json
import tracemalloc
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from tests.histories import status

from copyrator import bundles
from copyrator.api.bundle_status import AgeStatus
from copyrator.api.keys import BundleKey, ReleaseKey
from copyrator.bundles.engine.bundle import BundleCache, BundleEntry, Memories, read_entry
from copyrator.bundles.engine.feature import Content, Feature, Features
from copyrator.bundles.engine.status import stored_status
from copyrator.bundles.features.age.fields import AgeSpec
from copyrator.bundles.features.dependencies.fields import DependenciesSpec
from copyrator.bundles.features.promotion.fields import PromotionStatus
from copyrator.bundles.fields import BundleDefaults
from copyrator.oci.errors import RegistryError, RegistryUnreachable

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

    assert not registry.take(claim("a")), "a late event"
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


# --- Whom a change of a Bundle's release wakes


WENT_OUT = {"version": "1.0.0", "digest": "sha256:" + "1" * 64, "time": "2026-05-04T12:00:00Z"}


def of(namespace: str, release: str, **status: Any) -> BundleEntry:
    spec = {"registry": "r.example.com", "repo": "x", "project_namespace": release}
    about = {"namespace": namespace, "name": "x", "uid": namespace}
    return read_entry({"metadata": about, "spec": spec, "status": status}, BundleDefaults())


def test_bundles_of_the_release_that_one_has_or_had_are_woken() -> None:
    one, rival, other = of("b", "z"), of("c", "z"), of("d", "y")
    moved = of("b", "y")

    def woken(before: BundleEntry | None, after: BundleEntry | None) -> list[str]:
        bundles, found = BundleCache(), list[str]()
        for entry in (rival, other, before):
            assert entry is None or bundles.take(entry)
        bundles.on_rival = lambda key: found.append(key.namespace)
        if after is not None:
            assert bundles.take(replace(after, resource_version="2"))
        elif before is not None:
            assert bundles.remove(before.key, before.uid)
        return sorted(found)

    assert woken(one, one) == []
    assert woken(one, moved) == ["c", "d"]
    assert woken(one, None) == woken(None, one) == ["c"]
    later = WENT_OUT | {"time": "2026-05-04T13:00:00Z"}
    assert woken(of("b", "z", deployed=WENT_OUT), of("b", "z", deployed=later)) == ["c"]


# --- What is remembered of a Bundle is dropped with it, and is read by nobody but its owner


KEY, OTHER = BundleKey("team", "shop"), BundleKey("team", "other")


@dataclass
class Count:
    number: int = 0


@dataclass
class Text:
    text: str = ""


def test_each_class_is_made_at_its_first_use_and_dropped_with_the_bundle() -> None:
    memories, released = Memories(), list[tuple[BundleKey, Count | None]]()
    memories.on_drop(lambda key: released.append((key, memories.find(key, Count))))
    assert memories.find(KEY, Count) is None
    assert not len(memories), "to look for it makes nothing"
    memories.of(KEY, Count).number = 1
    memories.of(OTHER, Text)
    assert memories.of(KEY, Count) is memories.find(KEY, Count)
    assert list(memories.each(Count)) == [(KEY, Count(1))]
    memories.forget(OTHER, Text)
    assert memories.find(OTHER, Text) is None
    memories.drop(KEY)
    assert released == [(KEY, Count(1))], "whoever releases something still sees it"
    assert memories.find(KEY, Count) is None
    assert len(memories) == 1


def test_what_is_remembered_is_read_in_the_module_of_its_class_alone() -> None:
    used = 0
    for path in Path(bundles.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text())
        own = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or "memories." not in ast.unparse(node.func):
                continue
            named = {ast.unparse(one) for one in node.args[-1:] if isinstance(one, ast.Name)}
            kinds = {name for name in named if name.lstrip("_")[:1].isupper()}
            used += len(kinds)
            assert kinds <= own, f"{path.name} reads {kinds - own} of another module"
    assert used > 20


# --- Which Bundles use a feature, and which use none


OLD = {"candidates": [{"version": "1", "digest": "sha256:a", "firstSeen": "2026-01-01T00:00:00Z"}]}
SOAK = {"soak": [{"version": "1", "digest": "sha256:a", "since": "2026-01-01T00:00:00Z"}]}


class OfOne(Feature):
    spec = AgeSpec
    status = AgeStatus

    def due(self, key: Any) -> None:
        """Offer a point."""


class OfSome(OfOne):
    spec = (AgeSpec, DependenciesSpec)
    status = (AgeStatus, PromotionStatus)
    annotation = "operator.werf.dev/asks"


class OfAll(OfOne):
    spec = None


def bundle(*, spec: Any = None, status: Any = None, asks: str = "") -> BundleEntry:
    metadata: dict[str, Any] = {"namespace": "team", "name": "shop", "labels": {"a": "b"}}
    if asks:
        metadata["annotations"] = {f"operator.werf.dev/{asks}": "1"}
    needed = {"registry": "r.example", "repo": "app"}
    body = {"metadata": metadata, "spec": needed | (spec or {}), "status": status or {}}
    return read_entry(body, BundleDefaults())


AGE, DEPENDENCIES, PROMOTION = map(pytest.mark.needs, ("age", "dependencies", "promotion"))
SPEC_OF_ONE, SPEC_OF_SOME = {"minAge": "1h"}, {"dependsOn": [{"name": "db"}]}


@pytest.mark.parametrize(
    ("entry", "used", "is_plain"),
    [
        (bundle(), {OfAll}, True),
        (bundle(status={"ready": 1}), {OfAll}, True),
        pytest.param(bundle(spec=SPEC_OF_ONE), {OfOne, OfSome, OfAll}, False, marks=AGE),
        pytest.param(bundle(spec=SPEC_OF_SOME), {OfSome, OfAll}, False, marks=DEPENDENCIES),
        pytest.param(bundle(status=OLD), {OfOne, OfSome, OfAll}, False, marks=AGE),
        pytest.param(bundle(status=SOAK), {OfSome, OfAll}, False, marks=PROMOTION),
        (bundle(asks="asks"), {OfSome, OfAll}, False),
        (bundle(asks="other"), {OfAll}, False),
        (bundle(spec={"repo": "no such"}), set(), False),
    ],
)
def test_a_bundle_uses_what_it_has_something_of(
    entry: BundleEntry, used: set[type[Feature]], *, is_plain: bool
) -> None:
    made = [kind(cast("Any", None)) for kind in (OfOne, OfSome, OfAll)]
    found = Features(made, Memories()).of(entry, Feature.due)
    assert {type(one) for one in found} == used
    assert entry.is_plain is is_plain


# --- What features know of what a version is made of


READING = None
DOWN = RegistryUnreachable("it is down")
CHART = Content(("a:1 draws",), ("say who",))
WORDS = Content((), ("hello",))


def knowing(found: Content | RegistryError | None) -> Feature:
    class Knowing(Feature):
        async def content(self, *_: object) -> Content | RegistryError | None:
            return found

    return Knowing(cast("Any", SimpleNamespace()))


@pytest.mark.parametrize(
    ("known", "whole"),
    [
        ((CHART, WORDS), Content(("a:1 draws",), ("say who", "hello"))),
        ((WORDS, CHART), Content(("a:1 draws",), ("hello", "say who"))),
        ((WORDS, READING), READING),
        ((DOWN, WORDS), DOWN),
    ],
)
async def test_all_that_is_known_counts_and_what_isnt_there_yet_is_awaited(
    known: tuple[Content | RegistryError | None, ...], whole: Content | RegistryError | None
) -> None:
    features = Features([*map(knowing, known)], Memories())
    assert await features.content(cast("Any", None), cast("Any", None), "sha256:a") == whole


async def test_without_a_feature_that_judges_charts_no_plan_is_bound() -> None:
    features = Features([Feature(cast("Any", SimpleNamespace()))], Memories())
    found = await features.content(cast("Any", None), cast("Any", None), "sha256:a")
    assert isinstance(found, Content)
    assert found.unbound == ("nothing judges the chart",)


# --- What the cache holds of a Bundle, however long its life has been


HOSTILE = 300_000
"""Bytes of a Bundle whose status somebody wrote to waste memory."""


def body(i: int, found: dict[str, Any]) -> str:
    return json.dumps(
        {
            "metadata": {
                "namespace": f"team-{i}",
                "name": f"app-{i}",
                "uid": f"00000000-0000-0000-0000-{i:012d}",
                "resourceVersion": str(100_000 + i),
                "generation": 3,
                "creationTimestamp": f"2026-01-01T00:00:{i % 60:02d}Z",
                "finalizers": ["operator.werf.dev/uninstall"],
                "labels": {"app.kubernetes.io/name": f"app-{i}"},
                "annotations": {"operator.werf.dev/requestedAt": f"request-{i}"},
            },
            "spec": {
                "registry": "registry.example.com",
                "repo": f"team-{i}/app",
                "version": "1.*",
                "auth": "registry-creds",
                "values": f"values-{i}",
                "env": {"WERF_ENV": "production"},
            },
            "status": found,
        }
    )


def test_a_status_is_read_as_it_was_written() -> None:
    entries = [read_entry(json.loads(body(i, status(i))), BundleDefaults()) for i in range(50)]

    assert [entry.status.to_dict() for entry in entries] == [status(i) for i in range(50)]
    assert {entry.status.ready_reason for entry in entries} == {"Deployed"}
    assert {entry.unread for entry in entries} == {b""}


def test_what_cannot_be_parsed_of_a_status_is_kept_to_be_removed() -> None:
    strange = {**status(1), "history": [7], "attempted": {"attempt": "x"}, "consent": {}, "a": None}
    entry = read_entry(json.loads(body(1, strange | {"forceUpdate": "x"})), BundleDefaults())

    assert stored_status(entry) == strange
    assert entry.status.attempted.attempt is None
    assert entry.status.past == ()


STATUSES: dict[str, dict[str, Any]] = {
    "texts": {f"x{n}": "\N{GRINNING FACE}" * 4_000 for n in range(60)},
    "maps": {"a": {f"b{n}": {"c": {"d": {}}} for n in range(50)} | {"e": [[{"f": {}}] * 900] * 9}},
    "numbers": {f"x{n}": 1_000 + n for n in range(1_300)},
    "lists": {"a": [[[[n + 1_000] * 20 for n in range(20)]] * 20] * 20},
    "history": {"history": [{}] * 5_000},
    "gates": {"gates": [{}] * 2_000},
    "conditions": {"conditions": [{"type": "Ready"}] * 900},
    "missing": {"attempted": {"missing": [{"verbs": []}] * 1_000}},
}


@pytest.mark.measures
@pytest.mark.parametrize("status", STATUSES.values(), ids=STATUSES)
def test_what_is_held_of_a_hostile_status_is_bounded(status: dict[str, Any]) -> None:
    texts = [body(i, status) for i in range(2)]
    read_entry(msgspec.json.decode(texts.pop()), BundleDefaults())
    gc.collect()

    tracemalloc.start()
    entries = [read_entry(msgspec.json.decode(text), BundleDefaults()) for text in texts]
    gc.collect()
    found, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert found / len(entries) <= HOSTILE
