"""Others who write at the same moment: nothing of theirs is lost, and nobody fights.

The operator is stopped in its tracks (SIGSTOP) while others write, so that it acts on a view that
is out of date, in whatever order its watches tell it the news.
"""

import dataclasses
import signal
from collections import Counter
from contextlib import contextmanager

from tests.e2e.copies.conftest import copying, wait_quiet
from tests.e2e.operator_process import until
from tests.long import LONG

COPIES = 8 if LONG else 4


@contextmanager
def frozen(operator):
    """The operator hears and does nothing, and then everything at once."""
    operator.process.send(signal.SIGSTOP)
    try:
        yield
    finally:
        operator.process.send(signal.SIGCONT)


def fleet(operator, user, namespace, word, **more):
    source = namespace("source")
    targets = [namespace(f"{word}-{number}") for number in range(COPIES)]
    user.create("configmaps", source, word, data={"key": "value"})
    user.rule(operator.namespace, word, copying(source, word, **more))
    user.wait_ready(operator.namespace, word)
    return source, targets


def test_what_a_user_creates_in_a_copys_place_is_not_deleted_with_the_rule(
    operator, user, namespace, word
):
    _, targets = fleet(operator, user, namespace, word)
    with frozen(operator):
        user.delete("copyrators", operator.namespace, word)
        for target in targets:
            user.delete("configmaps", target, word)
            user.create("configmaps", target, word, data={"key": "theirs"})
    user.wait_gone("copyrators", operator.namespace, word)
    for target in targets:
        assert user.data("configmaps", target, word) == {"key": "theirs"}


def test_what_a_user_creates_in_a_copys_place_is_not_overwritten_by_an_update(
    operator, user, namespace, word
):
    source, targets = fleet(operator, user, namespace, word)
    with frozen(operator):
        user.patch("configmaps", source, word, data={"key": "newer"})
        for target in targets:
            user.delete("configmaps", target, word)
            user.create("configmaps", target, word, data={"key": "theirs"})

    def conflicts():
        return user.get("copyrators", operator.namespace, word)["status"]["copies"]["conflicts"]

    until(lambda: conflicts() == COPIES, f"{conflicts()} conflicts")
    for target in targets:
        assert user.data("configmaps", target, word) == {"key": "theirs"}


def test_an_annotation_that_a_third_party_adds_meanwhile_survives_an_update(
    operator, user, namespace, word
):
    source, targets = fleet(operator, user, namespace, word)
    with frozen(operator):
        user.patch("configmaps", source, word, data={"key": "newer"})
        for target in targets:
            theirs = {"annotations": {"theirs": "kept"}, "labels": {"theirs": "kept"}}
            user.patch("configmaps", target, word, metadata=theirs)
    for target in targets:
        user.wait_data("configmaps", target, word, {"key": "newer"})
        metadata = user.get("configmaps", target, word)["metadata"]
        assert metadata["annotations"]["theirs"] == "kept"
        assert metadata["labels"]["theirs"] == "kept"


def test_a_copy_that_a_third_party_annotates_meanwhile_is_still_deleted_with_its_source(
    operator, user, namespace, word
):
    source, targets = fleet(operator, user, namespace, word)
    with frozen(operator):
        user.delete("configmaps", source, word)
        for target in targets:
            user.patch("configmaps", target, word, metadata={"annotations": {"theirs": "late"}})
    for target in targets:
        user.wait_gone("configmaps", target, word)


def test_two_operators_on_the_same_rules_agree_and_fall_silent(
    operator, user, namespace, word, tmp_path
):
    source, targets = fleet(operator, user, namespace, word)
    # Leader election is switched off for one: now both think that they lead.
    log, flags = tmp_path / "second.log", (*operator.flags, "--no-leader-election")
    second = dataclasses.replace(operator, log=log, flags=flags, process=None)
    second.start()
    try:
        since = operator.cluster.audit_offset()
        user.patch("configmaps", source, word, data={"key": "newer"})
        late = namespace(f"{word}-late")
        for target in (*targets, late):
            user.wait_data("configmaps", target, word, {"key": "newer"})
        user.wait_ready(operator.namespace, word)
        assert operator.writes(since)
        quiet = operator.cluster.audit_offset()
        user.patch("configmaps", source, word, data={"key": "newest"})
        for target in (*targets, late):
            user.wait_data("configmaps", target, word, {"key": "newest"})
        user.wait_ready(operator.namespace, word)

        def done():
            events = [e for e in operator.writes(quiet) if e.namespace in (*targets, late)]
            return [e for e in events if e.code == 200]

        until(lambda: len({e.namespace for e in done()}) > COPIES, "each copy was written")
        wait_quiet(operator, operator.namespace, source, late, *targets)
        # One writes and the other is refused; but one that learns of a new copy before it learns of
        # the new source takes it for edited: it writes the old content, and the first one mends it.
        writes = Counter(event.namespace for event in done())
        assert set(writes) == {*targets, late}
        assert all(count in (1, 3) for count in writes.values()), writes
        for target in (*targets, late):
            assert user.data("configmaps", target, word) == {"key": "newest"}
        user.delete("copyrators", operator.namespace, word)
        user.wait_gone("copyrators", operator.namespace, word)
        for target in (*targets, late):
            assert user.get("configmaps", target, word) is None
    finally:
        assert second.stop() == 0
    assert "Traceback" not in second.log.read_text()
