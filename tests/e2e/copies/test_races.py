"""Two operators that both think that they lead; other races are in tests/component/copies."""

import dataclasses
from collections import Counter

from tests.e2e.copies.conftest import copying, wait_quiet
from tests.e2e.operator_process import until
from tests.long import LONG

COPIES = 8 if LONG else 4


def test_two_operators_on_the_same_rules_agree_and_fall_silent(
    operator, user, namespace, word, tmp_path
):
    source = namespace("source")
    targets = [namespace(f"{word}-{number}") for number in range(COPIES)]
    user.create("configmaps", source, word, data={"key": "value"})
    user.rule(operator.namespace, word, copying(source, word))
    user.wait_ready(operator.namespace, word)
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
