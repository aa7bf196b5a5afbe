"""What the operator does at its start: nothing where all is right, and whatever was missed."""

import pytest
from tests.e2e.copies.conftest import encoded, restart
from tests.e2e.operator_process import until

from copyrator.api import names

COPIES = 6


@pytest.fixture
def fleet(stopped, user, namespace, word):
    """A rule with two sources and right copies, and the operator just stopped."""
    source = namespace("source")
    targets = [namespace(f"{word}-{number}") for number in range(COPIES // 2)]
    for name in ("one", "two"):
        user.create(
            "secrets", source, name, metadata={"labels": {"app": word}}, data=encoded(key=name)
        )
    spec = {
        "source": {
            "kind": "Secret",
            "namespace": source,
            "selector": {"matchLabels": {"app": word}},
        },
        "targets": {"namespaces": [f"{word}-*"]},
    }
    stopped.start()
    user.rule(stopped.namespace, word, spec)
    status = user.wait_ready(stopped.namespace, word)
    assert status["copies"]["ready"] == COPIES
    assert stopped.stop() == 0
    return source, targets


def test_a_restart_over_right_copies_writes_nothing_and_reads_only_lists(
    stopped, user, fleet, word, namespace
):
    source, targets = fleet
    since = restart(stopped, user, word)
    late = namespace(f"{word}-late")  # once it is served, everything else has been looked at, too
    user.wait_data("secrets", late, "one", encoded(key="one"))
    user.wait_data("secrets", late, "two", encoded(key="two"))
    stopped.stop()
    ours = {stopped.namespace, source, *targets, late}  # not what another test left behind
    found = stopped.writes(since, at=ours, but=("events",))
    writes = [e for e in found if not e.subresource]
    assert [(e.verb, e.resource, e.namespace) for e in writes] == [("create", "secrets", late)] * 2
    gets = [
        event
        for event in stopped.cluster.audit_events(since)
        if event.user == stopped.user
        and event.verb == "get"
        and event.namespace in ours
        and event.resource in ("secrets", "configmaps")
        and event.name != "copyrator-hash-key"
    ]
    assert gets == []


def test_what_changed_while_the_operator_was_down_is_made_up_for(
    stopped, user, fleet, word, namespace
):
    source, targets = fleet
    user.patch("secrets", source, "one", data=encoded(key="changed"))
    user.patch("secrets", targets[0], "two", data=encoded(key="drifted"))
    user.delete("secrets", targets[1], "two")
    late = namespace(f"{word}-late")
    since = restart(stopped, user, word)
    for target in (*targets, late):
        user.wait_data("secrets", target, "one", encoded(key="changed"))
        user.wait_data("secrets", target, "two", encoded(key="two"))
    writes = stopped.writes(since, at=(source, *targets, late), but=("events",))
    assert len(writes) == len(targets) + 2 + 2, "changed copies, drifted and deleted, late"


def test_a_source_deleted_while_the_operator_was_down_takes_its_copies_along(
    stopped, user, fleet, word
):
    source, targets = fleet
    user.delete("secrets", source, "one")
    restart(stopped, user, word)
    for target in targets:
        user.wait_gone("secrets", target, "one")
        assert user.data("secrets", target, "two") == encoded(key="two")


def test_a_rule_deleted_while_the_operator_was_down_waits_for_its_copies_end(
    stopped, user, fleet, word
):
    source, targets = fleet
    user.delete("copyrators", stopped.namespace, word)
    rule = user.get("copyrators", stopped.namespace, word)
    assert rule["metadata"]["finalizers"] == [names.FINALIZER_RULE]
    stopped.start()
    user.wait_gone("copyrators", stopped.namespace, word)
    for target in targets:
        assert user.names("secrets", target) == []
    assert user.data("secrets", source, "one") == encoded(key="one")


def test_a_rule_that_changed_its_kind_while_the_operator_was_down_leaves_no_orphans(
    stopped, user, fleet, word
):
    source, targets = fleet
    user.create(
        "configmaps", source, "plain", metadata={"labels": {"app": word}}, data={"key": "plain"}
    )
    user.patch("copyrators", stopped.namespace, word, spec={"source": {"kind": "ConfigMap"}})
    restart(stopped, user, word)
    for target in targets:
        user.wait_data("configmaps", target, "plain", {"key": "plain"})
        user.wait_gone("secrets", target, "one")
        user.wait_gone("secrets", target, "two")
    assert user.data("secrets", source, "one") == encoded(key="one")


def test_after_a_lost_hash_key_each_right_copy_is_read_once_and_written_once(
    stopped, user, fleet, word
):
    source, targets = fleet
    user.delete("secrets", stopped.namespace, "copyrator-hash-key")
    since = restart(stopped, user, word)

    def did(verb) -> int:
        events = stopped.cluster.audit_events(since)
        ours = [e for e in events if e.user == stopped.user and e.namespace in targets]
        return len([e for e in ours if e.verb == verb and e.resource == "secrets" and e.name])

    until(lambda: did("update") >= COPIES, "every copy is written once")
    user.wait_ready(stopped.namespace, word)
    assert (did("get"), did("update")) == (COPIES, COPIES)
    deleted = [e for e in stopped.writes(since, at=(source, *targets)) if e.verb == "delete"]
    assert deleted == []
    assert stopped.stop() == 0
    since = restart(stopped, user, word)
    assert stopped.writes(since, at=targets) == []


def test_a_copy_that_isnt_right_after_a_lost_hash_key_waits_for_a_reseal(
    stopped, user, fleet, word
):
    _, targets = fleet
    user.patch("secrets", targets[0], "one", data=encoded(key="other"))
    user.delete("secrets", stopped.namespace, "copyrator-hash-key")
    stopped.start()

    def conflicts() -> int:
        rule = user.get("copyrators", stopped.namespace, word)
        return rule["status"]["copies"]["conflicts"]

    until(lambda: conflicts() == 1, "one copy is in conflict")
    assert user.data("secrets", targets[0], "one") == encoded(key="other")
    annotations = {names.ANN_RULE_RESEAL_AT: "now"}
    user.patch("copyrators", stopped.namespace, word, metadata={"annotations": annotations})
    user.wait_data("secrets", targets[0], "one", encoded(key="one"))
    user.wait_ready(stopped.namespace, word)

    def answered() -> bool:
        metadata = user.get("copyrators", stopped.namespace, word)["metadata"]
        return names.ANN_RULE_RESEAL_AT not in metadata.get("annotations", {})

    until(answered, "the operator takes the request off")
