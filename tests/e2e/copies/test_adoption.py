"""Taking over what stands there already: once, exactly, and for good."""

from tests.e2e.copies.conftest import encoded, restart

from copyrator.api import names


def test_an_old_form_rule_adopts_the_originals_unmarked_copies_with_one_write_each(
    stopped,
    user,
    namespace,
    word,
):
    source = namespace("source")
    targets = [namespace(f"{word}-{number}") for number in range(3)]
    labels = {"labels": {"app": word}}
    right = encoded(key="value")
    user.create("secrets", source, word, metadata=labels, data=right)
    for target in targets:  # as the original left them: labels and data, no marks
        user.create("secrets", target, word, metadata=labels, data=right)
    other = namespace(f"{word}-other")
    user.create("secrets", other, word, data=encoded(key="theirs"))
    stopped.start()
    since = stopped.cluster.audit_offset()
    user.rule(stopped.namespace, word, ruleType="secret", selector={"app": word}, namespace=source)
    condition = user.wait_failing(stopped.namespace, word)
    assert condition["message"].startswith(
        f"{other}/{word}: Conflict (differs in labels, data), 1 of "
    )
    for target in targets:
        found = user.get("secrets", target, word)
        assert found["data"] == right
        assert found["metadata"]["labels"][names.LABEL_MANAGED_BY] == names.MANAGED_BY
    assert user.data("secrets", other, word) == encoded(key="theirs")
    updates = [e for e in stopped.writes(since) if e.verb == "update" and e.namespace in targets]
    assert sorted(event.namespace for event in updates) == sorted(targets)
    assert stopped.stop() == 0
    user.delete("secrets", other, word)
    since = restart(stopped, user, word)
    user.wait_data("secrets", other, word, right)
    user.wait_data("secrets", namespace(f"{word}-late"), word, right)
    assert [e for e in stopped.writes(since) if e.namespace in targets] == []
    user.delete("copyrators", stopped.namespace, word)
    user.wait_gone("copyrators", stopped.namespace, word)
    assert user.get("secrets", targets[0], word) is None
