"""Rules that can't be meant: said with the field's path, and what stands there stays."""

import pytest
from tests.component.copies.conftest import (
    HOME,
    Operator,
    by_name,
    copy_app,
    counts,
    make_rule,
    ready_of,
    reason,
)
from tests.component.copies.fake_cluster import path_of
from tests.component.kube.fake_api import until

from copyrator.copies.timing import CopyTiming

SOURCE = {"kind": "ConfigMap", "name": "app"}
BY_LABEL = {"kind": "ConfigMap", "selector": {"matchLabels": {"app": "x"}}}
TEMPLATE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}


CASES = [
    ("spec.source", {"spec": {}}),
    ("spec.targets", {"spec": {"source": SOURCE, "targets": {"namespaces": []}}}),
    ("spec.limit", {"spec": {"source": SOURCE, "limit": 0}}),
    ("spec.transform.name", {"spec": {"source": SOURCE, "transform": {"name": "{{ x"}}}),
    ("spec.template", {"spec": {"template": {**TEMPLATE, "data": {"key": "{% if %}"}}}}),
    ("ruleType", {"ruleType": "pod", "selector": {"a": "b"}}),
    ("selector", {"ruleType": "secret", "selector": 5}),
    ("spec", {"spec": {"source": SOURCE}, "ruleType": "secret", "selector": {"a": "b"}}),
]
"""One of each sort; all that the parser says is in tests/unit/api/specs."""


def answer(cluster):
    """The Ready condition of the rule as it is now."""
    generation = cluster.found("copyrators", HOME, "rule")["metadata"]["generation"]
    found = ready_of(cluster)
    return found if found.get("observedGeneration") == generation else {}


async def test_what_cant_be_meant_is_told_with_its_path_and_leaves_copies_alone(
    cluster,
):
    operator = Operator(cluster, timing=CopyTiming(status_interval=0.0, settling=0.0))
    await operator.start()
    copy_app(cluster, "one", "two")
    await until(lambda: counts(cluster).get("ready") == 2)
    cluster.seen.clear()
    for path, fields in CASES:
        spec = fields.get("spec")
        old = {name: value for name, value in fields.items() if name != "spec"}
        body = make_rule(cluster, "rule", spec, **old)
        if spec is not None and old:
            cluster.write(path_of("copyrators", HOME, "rule"), {**body, **old})
        await until(lambda: answer(cluster), f"{fields} is answered")
        condition = answer(cluster)
        assert (condition["status"], condition["reason"]) == ("False", "InvalidSpec"), fields
        assert condition["message"].startswith(path), (fields, condition["message"])
        assert len(condition["message"]) > len(path) + 10
    assert cluster.writes("configmaps") == []
    make_rule(cluster, "rule", by_name("app"))
    await until(lambda: answer(cluster).get("reason") == "Synced")
    assert cluster.writes("configmaps") == [], "the copies were right all the time"


@pytest.mark.parametrize("grows", ["sources", "namespaces"])
async def test_a_rule_that_grows_over_its_limit_stops_before_the_first_write_too_many(
    cluster, operator, grows
):
    for name in ("one", "two"):
        cluster.namespace(name)
    labels = {"labels": {"app": "x"}}
    for name in ("app-1", "app-2"):
        cluster.object("configmaps", HOME, name, metadata=labels, data={"key": "value"})
    targets = {"namespaces": ["*"], "exclude": [HOME]}
    make_rule(cluster, "rule", {"source": BY_LABEL, "targets": targets, "limit": 4})
    await until(lambda: reason(cluster) == "Synced")
    await operator.settled()
    cluster.seen.clear()
    if grows == "sources":
        cluster.object("configmaps", HOME, "app-3", metadata=labels, data={"key": "value"})
    else:
        cluster.namespace("three")
    await until(lambda: reason(cluster) == "InvalidSpec")
    await operator.settled()
    assert cluster.writes("configmaps") == []
    make_rule(cluster, "rule", {"source": BY_LABEL, "targets": targets, "limit": 6})
    await until(lambda: reason(cluster) == "Synced")
    assert counts(cluster)["ready"] == 6
    assert [verb for verb, _ in cluster.writes("configmaps")] == ["create"] * 2


@pytest.mark.promise
@pytest.mark.parametrize(
    ("spec", "settings", "refused"),
    [
        (
            {"sources": [{"as": "app", "kind": "Secret", "name": "app"}], "template": TEMPLATE},
            {"kinds": ("ConfigMap",)},
            ("KindUnavailable", "add Secret to the chart's rules.kinds"),
        ),
        (
            {"source": {**SOURCE, "namespace": "other"}},
            {"watch_namespaces": (HOME, "team")},
            ("InvalidSpec", "this operator doesn't serve other; add it to --watch-namespaces"),
        ),
    ],
    ids=["a source's kind", "a source's namespace"],
)
async def test_nothing_is_read_that_the_operators_settings_leave_out(
    cluster, spec, settings, refused
):
    for namespace in ("team", "other"):
        cluster.namespace(namespace)
    operator = Operator(cluster, **settings)
    await operator.start()
    make_rule(cluster, "rule", spec)
    await until(lambda: reason(cluster) == refused[0])
    assert refused[1] in ready_of(cluster)["message"]
    await operator.settled()
    asked = [f"{seen.path}?{seen.params}" for seen in cluster.seen]
    assert not [one for one in asked if "/secrets/app" in one or "/namespaces/other/" in one]
    await operator.stop()


async def test_a_rule_that_is_made_anew_is_judged_by_its_own_text(cluster, operator):
    cluster.namespace("team")
    broken = {**TEMPLATE, "data": {"key": "{{"}}
    make_rule(cluster, "rule", {"template": broken})
    await until(lambda: reason(cluster) == "InvalidSpec")
    cluster.gone("copyrators", HOME, "rule")
    make_rule(cluster, "rule", {"template": {**TEMPLATE, "data": {"key": "right"}}})
    await until(lambda: reason(cluster) == "Synced")
