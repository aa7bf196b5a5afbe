"""Whatever changes, the copies follow, and nothing is deleted that isn't known to be unwanted."""

import pytest
from tests.e2e.copies.conftest import copying, deploy, encoded, grant, restart
from tests.e2e.operator_process import until
from tests.long import LONG, long_form

FRUGALITY = "tests/e2e/copies/test_frugality.py"
VIEWS = "tests/component/copies/test_incomplete_views.py"
MASS = 200 if LONG else 30
"""Sources that are changed at once, each with five copies."""


def test_another_source_namespace_is_one_update_a_copy_and_no_deletion(
    operator, user, namespace, word
):
    one, two = namespace("one"), namespace("two")
    targets = [namespace(f"{word}-{number}") for number in range(4)]
    for source in (one, two):
        user.create("configmaps", source, word, data={"from": source})
    user.rule(operator.namespace, word, copying(one, word))
    user.wait_ready(operator.namespace, word)
    since = operator.cluster.audit_offset()
    user.patch("copyrators", operator.namespace, word, spec={"source": {"namespace": two}})
    for target in targets:
        user.wait_data("configmaps", target, word, {"from": two})
    user.wait_ready(operator.namespace, word)
    written = operator.writes(since, at=(one, two, *targets))
    assert [(e.verb, e.resource) for e in written] == [("update", "configmaps")] * len(targets)


def test_another_kind_replaces_the_copies(operator, user, namespace, word):
    source, target = namespace("source"), namespace(f"{word}-t")
    user.create("configmaps", source, word, data={"key": "value"})
    user.create("secrets", source, word, data=encoded(key="value"))
    user.rule(operator.namespace, word, copying(source, word))
    user.wait_data("configmaps", target, word, {"key": "value"})
    user.patch("copyrators", operator.namespace, word, spec={"source": {"kind": "Secret"}})
    user.wait_data("secrets", target, word, encoded(key="value"))
    user.wait_gone("configmaps", target, word)
    user.wait_ready(operator.namespace, word)


def test_a_mass_change_is_superseded_by_the_rules_deletion(operator, user, namespace, word):
    source = namespace("source")
    targets = {namespace(f"{word}-{number}") for number in range(5)}
    for number in range(MASS):
        labels = {"labels": {"set": word}}
        user.create("configmaps", source, f"{word}-{number}", metadata=labels, data={"a": "b"})
    spec = copying(source, word)
    spec["source"] = {
        "kind": "ConfigMap",
        "namespace": source,
        "selector": {"matchLabels": {"set": word}},
    }
    user.rule(operator.namespace, word, spec)
    user.wait_ready(operator.namespace, word)
    since = operator.cluster.audit_offset()
    user.patch(
        "copyrators",
        operator.namespace,
        word,
        spec={"transform": {"labels": {"add": {"mass": "change"}}}},
    )
    user.delete("copyrators", operator.namespace, word)
    user.wait_gone("copyrators", operator.namespace, word)
    for target in targets:
        assert [name for name in user.names("configmaps", target) if word in name] == []
    writes = [e.verb for e in operator.writes(since) if e.namespace in targets and e.code == 200]
    assert writes.count("delete") == MASS * len(targets)
    first = writes.index("delete")
    assert writes[first:].count("update") <= 64, "what was in flight, nothing else"


@pytest.mark.refused("list limitranges")
@long_form(f"{VIEWS}::test_a_start_without_a_view_of_the_sources_deletes_nothing")
def test_rights_that_are_lost_over_a_restart_delete_nothing_and_come_back(
    cluster, user, namespace, word, tmp_path
):
    source, target = namespace("source"), namespace(f"{word}-t")
    limits = {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}}
    user.create("limitranges", source, word, **limits)
    with deploy(cluster, tmp_path / "operator.log", ("ConfigMap", "LimitRange")) as blind:
        blind.start()
        spec = copying(source, word)
        spec["source"]["kind"] = "LimitRange"
        user.rule(blind.namespace, word, spec)
        user.wait_ready(blind.namespace, word)
        assert blind.stop() == 0
        grant(blind, ("ConfigMap",))
        user.delete("limitranges", source, word)
        since = blind.cluster.audit_offset()
        blind.start()
        condition = user.wait_reason(blind.namespace, word, "Forbidden")
        assert "limitranges" in condition["message"]
        tried = [e for e in blind.writes(since) if e.resource == "limitranges"]
        assert tried == []
        assert user.get("limitranges", target, word) is not None
        grant(blind, ("ConfigMap", "LimitRange"))
        user.wait_gone("limitranges", target, word)


@long_form(f"{FRUGALITY}::test_a_restart_over_right_copies_writes_nothing_and_reads_only_pages")
def test_a_start_that_finds_everything_right_says_so_without_a_write(
    stopped, user, namespace, word
):
    source, target = namespace("source"), namespace(f"{word}-t")
    user.create("configmaps", source, word, data={"key": "value"})
    stopped.start()
    user.rule(stopped.namespace, word, copying(source, word))
    user.wait_ready(stopped.namespace, word)
    assert stopped.stop() == 0
    since = restart(stopped, user, word)
    marker = namespace(f"{word}-marker")
    until(lambda: user.data("configmaps", marker, word) == {"key": "value"})
    ours = (stopped.namespace, source, target, marker)
    writes = stopped.writes(since, at=ours, but=("copyrators", "events"))
    assert [(e.verb, e.namespace) for e in writes] == [("create", marker)]
