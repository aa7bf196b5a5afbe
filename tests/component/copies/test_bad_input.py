"""Rules that can't be meant: said with the field's path, and what stands there stays."""

import pytest
from tests.component.copies.conftest import HOME, Operator, by_name, counts, make_rule, reason
from tests.component.kube.fake_api import until

from copyrator.copies.timing import CopyTiming

SOURCE = {"kind": "ConfigMap", "name": "app"}
BY_LABEL = {"kind": "ConfigMap", "selector": {"matchLabels": {"app": "x"}}}
TEMPLATE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}


def selector(**requirement):
    return {"matchExpressions": [{"key": "a", **requirement}]}


INVALID = [
    ("spec.source", {}),
    ("spec.source", {"source": SOURCE, "template": TEMPLATE}),
    ("spec.source.kind", {"source": {"name": "app"}}),
    ("spec.source.kind", {"source": {**SOURCE, "kind": "not a kind"}}),
    ("spec.source.apiVersion", {"source": {**SOURCE, "apiVersion": "a/b/c"}}),
    ("spec.source.name", {"source": {"kind": "ConfigMap"}}),
    ("spec.source.name", {"source": {**SOURCE, "selector": {"matchLabels": {"a": "b"}}}}),
    ("spec.source.name", {"source": {**SOURCE, "name": "Not/A/Name"}}),
    ("spec.source.namespaces", {"source": {**SOURCE, "namespace": "a", "namespaces": ["b"]}}),
    ("spec.source.namespaces", {"source": {**SOURCE, "namespaces": []}}),
    ("spec.source.namespaces[1]", {"source": {**SOURCE, "namespaces": ["a", "B!"]}}),
    ("spec.source.selector", {"source": {"kind": "ConfigMap", "selector": {}}}),
    ("spec.source.selector", {"source": {"kind": "ConfigMap", "selector": "app=x"}}),
    (
        "spec.source.selector.matchExpressions[0].operator",
        {"source": {"kind": "ConfigMap", "selector": selector(operator="Near", values=["b"])}},
    ),
    (
        "spec.source.selector.matchExpressions[0].values",
        {"source": {"kind": "ConfigMap", "selector": selector(operator="In")}},
    ),
    (
        "spec.source.selector.matchExpressions[0].values",
        {"source": {"kind": "ConfigMap", "selector": selector(operator="Exists", values=["b"])}},
    ),
    ("spec.targets", {"source": SOURCE, "targets": {"namespaces": []}}),
    ("spec.targets.namespaces[0]", {"source": SOURCE, "targets": {"namespaces": ["Team"]}}),
    ("spec.targets.exclude[0]", {"source": SOURCE, "targets": {"exclude": [7]}}),
    ("spec.targets.selector", {"source": SOURCE, "targets": {"selector": []}}),
    ("spec.transform", {"template": TEMPLATE, "transform": {"name": "y"}}),
    ("spec.transform.keys", {"source": SOURCE, "transform": {"keys": []}}),
    ("spec.transform.keys.rename", {"source": SOURCE, "transform": {"keys": {"rename": ["a"]}}}),
    ("spec.transform.labels.add", {"source": SOURCE, "transform": {"labels": {"add": {"!": "b"}}}}),
    ("spec.template.metadata", {"template": {"apiVersion": "v1", "kind": "ConfigMap"}}),
    ("spec.template.kind", {"template": {"apiVersion": "v1", "metadata": {"name": "x"}}}),
    ("spec.onConflict", {"source": SOURCE, "onConflict": "Ignore"}),
    ("spec.onImmutable", {"source": SOURCE, "onImmutable": "Force"}),
    ("spec.deletionPolicy", {"source": SOURCE, "deletionPolicy": "Keep"}),
    ("spec.limit", {"source": SOURCE, "limit": 0}),
    ("spec.limit", {"source": SOURCE, "limit": "many"}),
    ("spec.mode", {"source": SOURCE, "mode": "DryRun"}),
    ("spec.suspend", {"source": SOURCE, "suspend": "yes"}),
    ("spec.transform.name", {"source": SOURCE, "transform": {"name": "{{ source.name "}}),
    ("spec.template", {"template": {**TEMPLATE, "data": {"key": "{% if %}"}}}),
]
INVALID_OLD = [
    ("ruleType", {"ruleType": "pod", "selector": {"a": "b"}}),
    ("ruleType", {"selector": {"a": "b"}}),
    ("selector", {"ruleType": "secret"}),
    ("selector", {"ruleType": "secret", "selector": 5}),
    ("selector", {"ruleType": "secret", "selector": {}}),
    ("selector", {"ruleType": "secret", "selector": "app"}),
    ("selector", {"ruleType": "secret", "selector": "a=b,a=c"}),
    ("selector[a]", {"ruleType": "secret", "selector": {"a": 5}}),
    ("namespace", {"ruleType": "secret", "selector": {"a": "b"}, "namespace": 5}),
    ("namespace[0]", {"ruleType": "secret", "selector": {"a": "b"}, "namespace": [{}]}),
    ("namespaces", {"ruleType": "secret", "selector": {"a": "b"}, "namespaces": "one"}),
]
CASES = [
    *((path, {"spec": spec}) for path, spec in INVALID),
    *INVALID_OLD,
    ("spec", {"spec": {"source": SOURCE}, "ruleType": "secret", "selector": {"a": "b"}}),
]


def ready(cluster):
    rule = cluster.found("copyrators", HOME, "rule")
    conditions = rule.get("status", {}).get("conditions", [])
    condition = next((one for one in conditions if one["type"] == "Ready"), {})
    if condition.get("observedGeneration") != rule["metadata"]["generation"]:
        return {}
    return condition


async def test_every_invalid_combination_is_told_with_its_path_and_leaves_copies_alone(
    cluster,
):
    operator = Operator(cluster, timing=CopyTiming(status_interval=0.0, settling=0.0))
    await operator.start()
    for name in ("one", "two"):
        cluster.namespace(name)
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    make_rule(cluster, "rule", by_name("app"))
    await until(lambda: counts(cluster, "rule").get("ready") == 2)
    cluster.seen.clear()
    for path, fields in CASES:
        spec = fields.get("spec")
        old = {name: value for name, value in fields.items() if name != "spec"}
        body = make_rule(cluster, "rule", spec, **old)
        if spec is not None and old:
            cluster.write(f"/apis/flant.com/v1/namespaces/{HOME}/copyrators/rule", {**body, **old})
        await until(lambda: ready(cluster), f"{fields} is answered")
        condition = ready(cluster)
        assert (condition["status"], condition["reason"]) == ("False", "InvalidSpec"), fields
        assert condition["message"].startswith(path), (fields, condition["message"])
        assert len(condition["message"]) > len(path) + 10
    assert cluster.writes("configmaps") == []
    make_rule(cluster, "rule", by_name("app"))
    await until(lambda: ready(cluster).get("reason") == "Synced")
    assert cluster.writes("configmaps") == [], "the copies were right all the time"


async def test_a_rule_that_is_invalid_at_the_start_keeps_its_copies_too(cluster, operator):
    cluster.namespace("one")
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    make_rule(cluster, "rule", by_name("app"))
    await until(lambda: reason(cluster, "rule") == "Synced")
    await operator.stop()
    make_rule(cluster, "rule", {"source": SOURCE, "limit": 0})
    cluster.seen.clear()
    again = Operator(cluster)
    await again.start()
    await until(lambda: reason(cluster, "rule") == "InvalidSpec")
    await again.settled()
    assert cluster.writes("configmaps") == []
    await again.stop()


async def test_more_than_a_hundred_thousand_copies_are_refused(cluster, operator):
    for number in range(201):
        cluster.namespace(f"team-{number:03}")
    for number in range(500):
        labels = {"labels": {"app": "x"}}
        cluster.object("configmaps", HOME, f"app-{number:03}", metadata=labels, data={})
    make_rule(cluster, "rule", {"source": BY_LABEL})
    await until(lambda: reason(cluster, "rule") == "InvalidSpec")
    assert "100000" in ready(cluster)["message"]
    assert ready(cluster)["message"].startswith("spec.limit")
    await operator.settled()
    assert cluster.writes("configmaps") == []


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
    await until(lambda: reason(cluster, "rule") == "Synced")
    await operator.settled()
    cluster.seen.clear()
    if grows == "sources":
        cluster.object("configmaps", HOME, "app-3", metadata=labels, data={"key": "value"})
    else:
        cluster.namespace("three")
    await until(lambda: reason(cluster, "rule") == "InvalidSpec")
    await operator.settled()
    assert cluster.writes("configmaps") == []
    make_rule(cluster, "rule", {"source": BY_LABEL, "targets": targets, "limit": 6})
    await until(lambda: reason(cluster, "rule") == "Synced")
    assert counts(cluster, "rule")["ready"] == 6
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
    await until(lambda: reason(cluster, "rule") == refused[0])
    rule = cluster.found("copyrators", HOME, "rule")
    assert refused[1] in rule["status"]["conditions"][0]["message"]
    await operator.settled()
    asked = [f"{seen.path}?{seen.params}" for seen in cluster.seen]
    assert not [one for one in asked if "/secrets/app" in one or "/namespaces/other/" in one]
    await operator.stop()


async def test_a_rule_that_is_made_anew_is_judged_by_its_own_text(cluster, operator):
    cluster.namespace("team")
    broken = {**TEMPLATE, "data": {"key": "{{"}}
    make_rule(cluster, "rule", {"template": broken})
    await until(lambda: reason(cluster, "rule") == "InvalidSpec")
    cluster.gone("copyrators", HOME, "rule")
    make_rule(cluster, "rule", {"template": {**TEMPLATE, "data": {"key": "right"}}})
    await until(lambda: reason(cluster, "rule") == "Synced")
