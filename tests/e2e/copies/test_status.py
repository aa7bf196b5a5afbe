"""What a person and a Prometheus see of a rule: conditions, samples, Events and metrics."""

import re

from tests.e2e.copies.conftest import copying
from tests.e2e.operator_process import DIRECT, until


def metrics(operator):
    """Samples by name and labels, as the health port shows them."""
    port = re.findall(r"Health and metrics on http://127\.0\.0\.1:(\d+)", operator.log.read_text())
    with DIRECT.open(f"http://127.0.0.1:{port[-1]}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def events(user, namespace, name):
    found = user.api.get(f"/api/v1/namespaces/{namespace}/events")["items"]
    about = [e for e in found if (e.get("involvedObject") or {}).get("name") == name]
    return [(event["type"], event["reason"]) for event in about]


def test_a_rules_story_is_told_in_its_status_in_events_and_in_metrics(
    stopped, user, namespace, word
):
    source, target = namespace("source"), namespace(f"{word}-t")
    stopped.start()
    user.rule(stopped.namespace, word, copying(source, word))
    user.wait_reason(stopped.namespace, word, "SourceNotFound")
    user.create("configmaps", target, word, data={"key": "theirs"})
    user.create("configmaps", source, word, data={"key": "value"})
    user.wait_failing(stopped.namespace, word)
    rule = user.get("copyrators", stopped.namespace, word)
    (failure,) = rule["status"]["failures"]
    assert (failure["namespace"], failure["name"]) == (target, word)
    assert failure["reason"] == "Conflict"
    assert "onConflict" in failure["message"]
    conditions = {one["type"]: one["status"] for one in rule["status"]["conditions"]}
    assert conditions == {"Ready": "False", "Reconciling": "True", "Stalled": "False"}
    shown = metrics(stopped)
    assert float(shown['copyrator_rules{reason="AllFailed"}']) == 1
    assert float(shown['copyrator_copies{state="conflicts"}']) == 1
    user.delete("configmaps", target, word)
    user.patch("configmaps", source, word, data={"key": "new"})  # so that it is tried at once
    user.wait_data("configmaps", target, word, {"key": "new"})
    status = user.wait_ready(stopped.namespace, word)
    assert status["failures"] == []
    assert status["observedGeneration"] == rule["metadata"]["generation"]
    shown = metrics(stopped)
    assert float(shown['copyrator_copies{state="ready"}']) == 1
    assert float(shown['copyrator_copies{state="conflicts"}']) == 0
    assert float(shown["copyrator_copy_lag_seconds_count"]) >= 1
    created = 'copyrator_copy_writes_total{action="create",resource="configmaps"}'
    assert float(shown[created]) == 1
    for name in ("copyrator_queue_depth", "copyrator_queue_oldest_seconds"):
        assert name in shown
    told = [
        ("Warning", "SourceNotFound"),
        ("Warning", "AllFailed"),
        ("Normal", "CopiesChanged"),
        ("Normal", "Synced"),
    ]
    until(lambda: len(events(user, stopped.namespace, word)) >= 4, "four Events")
    assert sorted(events(user, stopped.namespace, word)) == sorted(told)
