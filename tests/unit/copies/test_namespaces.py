import asyncio
import gc
from dataclasses import replace

import pytest

from copyrator.api.rule_spec import Targets
from copyrator.api.selectors import Globs, LabelSelector
from copyrator.copies.targets.namespaces import NAMESPACE_WATCH, Namespace, Namespaces
from copyrator.workqueue.fairness import TimeSlice


def body(name, **metadata):
    return {"metadata": {"name": name, "uid": "u", "resourceVersion": "1", **metadata}}


def known(*found):
    namespaces = Namespaces()
    for namespace in found:
        namespaces.put(Namespace.from_metadata(namespace))
    return namespaces


@pytest.mark.parametrize(
    ("metadata", "is_target"),
    [
        ({}, True),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, False),
        ({"labels": {"copyrator.flant.com/ignore": "true"}}, False),
        ({"labels": {"copyrator.flant.com/ignore": "false"}}, True),
    ],
)
def test_terminating_and_opted_out_namespaces_are_no_targets(metadata, is_target):
    assert Namespace.from_metadata(body("x", **metadata)).is_target is is_target


def test_kubectls_annotations_are_not_held():
    namespace = Namespace.from_metadata(
        body("x", annotations={"kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b"})
    )
    assert namespace.annotations == {"a": "b"}


def settled(targets):
    asyncio.run(targets.settle(TimeSlice()))
    return targets


TARGETS = Targets(
    namespaces=Globs(("team-*",)),
    exclude=Globs(("team-x",)),
    selector=LabelSelector.from_labels({"tier": "front"}),
)


def test_a_target_set_follows_the_namespaces():
    namespaces = known(body("team-a", labels={"tier": "front"}), body("team-b"), body("other"))
    targets = settled(namespaces.targets(TARGETS))
    assert list(targets) == ["team-a"]
    namespaces.put(Namespace.from_metadata(body("team-b", labels={"tier": "front"})))
    settled(targets)
    assert set(targets) == {"team-a", "team-b"}
    namespaces.put(Namespace.from_metadata(body("team-x", labels={"tier": "front"})))
    assert "team-x" not in targets
    namespaces.put(
        Namespace.from_metadata(body("team-a", labels={"tier": "front"}, deletionTimestamp="x"))
    )
    assert set(settled(targets)) == {"team-b"}
    namespaces.drop("team-b")
    assert len(targets) == 0


def test_a_namespace_is_judged_when_it_is_asked_about_and_counted_when_all_are():
    namespaces = known(body("team-a", labels={"tier": "front"}), body("team-b"))
    targets = namespaces.targets(TARGETS)
    assert not targets.settled
    assert len(targets) == 0
    assert "team-a" in targets
    assert "team-b" not in targets
    assert "nowhere" not in targets
    assert targets.settled
    namespaces.put(Namespace.from_metadata(body("team-a")))
    assert targets.had("team-a")
    assert "team-a" not in targets
    assert not targets.had("team-a")


def test_rules_that_say_the_same_share_a_set_as_long_as_anybody_holds_it():
    namespaces = known(body("a"))
    first = namespaces.targets(Targets())
    assert namespaces.targets(Targets()) is first
    del first
    gc.collect()
    assert len(namespaces._sets) == 0


def test_readers_are_equal_so_that_watches_are_shared():
    assert replace(NAMESPACE_WATCH, decode=Namespace.from_metadata) == NAMESPACE_WATCH
    assert hash(NAMESPACE_WATCH) == hash(replace(NAMESPACE_WATCH, decode=Namespace.from_metadata))
    assert NAMESPACE_WATCH.decode(body("x")).resource_version == "1"
