"""What is wrong with one rule is told in that rule's status and concerns no other."""

import pytest
from tests.component.copies.conftest import HOME, Operator, by_name, make_rule, ready_of, reason
from tests.component.kube.fake_api import until
from tests.long import LONG
from tests.targets import EVERYWHERE

from copyrator.copies.rules.rules import NOT_READ
from copyrator.copies.timing import CopyTiming

DIGITS = "{{ " + "9" * 4301 + " }}"
LOOPS = "{% for a in b %}" * 21 + "{% endfor %}" * 21
TEMPLATE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}}


def template(**data):
    return {"template": {**TEMPLATE, "data": data}, "targets": {"namespaces": ["team"]}}


def elsewhere(cluster, name, spec, namespace="tenant"):
    path = f"/apis/flant.com/v1/namespaces/{namespace}/copyrators/{name}"
    body = {
        "apiVersion": "flant.com/v1",
        "kind": "CopyratorRule",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"targets": EVERYWHERE} | spec,
    }
    return cluster.write(path, body)


@pytest.fixture
def served(cluster):
    """A namespace and a source, which a good rule copies."""
    cluster.namespace("team")
    cluster.namespace("tenant")
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    return by_name("app", targets={"namespaces": ["team"]})


@pytest.mark.parametrize("bad", [DIGITS, LOOPS, "{{" + "(" * 3000] if LONG else [LOOPS])
async def test_a_rule_that_cant_be_compiled_is_invalid_and_the_others_are_served(
    cluster, served, caplog, bad
):
    make_rule(cluster, "bad", template(key=bad))
    elsewhere(cluster, "bad", template(key=bad))
    make_rule(cluster, "good", served)
    operator = Operator(cluster)
    await operator.start()
    await until(lambda: reason(cluster, "good") == "Synced")
    await until(lambda: ready_of(cluster, "bad").get("reason") == "InvalidSpec")
    assert ready_of(cluster, "bad")["message"].startswith(
        "spec.template.data.key: isn't valid Jinja2"
    )
    await until(lambda: ready_of(cluster, "bad", "tenant").get("reason") == "NotTrusted")
    await operator.settled()
    await operator.stop()
    assert "Traceback" not in caplog.text


async def test_an_untrusted_rule_isnt_parsed(cluster, served):
    elsewhere(cluster, "big", template(key="{{ a }}" * 60_000))
    make_rule(cluster, "good", served)
    operator = Operator(cluster)
    await operator.start()
    await until(lambda: ready_of(cluster, "big", "tenant").get("reason") == "NotTrusted")
    await until(lambda: reason(cluster, "good") == "Synced")
    parsed = {rule.key.namespace for rule in operator.rules if rule.spec is not NOT_READ}
    assert parsed == {HOME}
    await operator.stop()


async def test_a_rule_that_was_served_ends_though_it_isnt_parsed_any_more(cluster, served):
    make_rule(cluster, "rule", served)
    operator = Operator(cluster)
    await operator.start()
    await until(lambda: cluster.copies("configmaps", "app") == ["team"])
    await operator.stop()
    later = Operator(cluster, timing=CopyTiming(takeover=0.0), rule_name="another")
    await later.start()
    cluster.gone("copyrators", HOME, "rule")
    await until(lambda: cluster.found("copyrators", HOME, "rule") is None)
    assert cluster.copies("configmaps", "app") == []
    await later.stop()


async def test_long_texts_are_compiled_elsewhere_and_rendered_here(cluster, operator, served):
    long = "{{ namespace.name }}" * 3_000
    make_rule(cluster, "rule", template(**{f"key{i}": long for i in range(4)}))
    await until(lambda: reason(cluster) == "Synced", seconds=60)
    made = cluster.found("configmaps", "team", "made")
    assert made["data"]["key3"] == "team" * 3_000


async def test_a_rule_that_cant_be_compiled_isnt_tried_again_until_it_is_changed(
    cluster, operator, served, monkeypatch
):
    seen = []

    def texts(spec):
        seen.append(spec)
        return original(spec)

    from copyrator.copies.rules import admission  # noqa: PLC0415 - what is replaced

    original = admission.rule_texts
    monkeypatch.setattr(admission, "rule_texts", texts)
    make_rule(cluster, "rule", template(key=LOOPS))
    await until(lambda: reason(cluster) == "InvalidSpec")
    for _ in range(3):
        operator.requeue_rules()
        await operator.idle()
    assert len(seen) == 1
    make_rule(cluster, "rule", template(key="{{ namespace.name }}"))
    await until(lambda: reason(cluster) == "Synced")


async def test_an_error_of_the_operators_own_is_told_in_the_rules_status_and_as_an_event(
    cluster, operator, served, monkeypatch
):
    async def broken(*_args):
        raise KeyError("secret")

    from copyrator.copies.rules import reconciler  # noqa: PLC0415 - what is replaced

    original = reconciler.summarize_rule
    monkeypatch.setattr(reconciler, "summarize_rule", broken)
    make_rule(cluster, "rule", served)
    await until(lambda: reason(cluster) == "InternalError")
    assert "KeyError" in ready_of(cluster, "rule")["message"]
    assert "secret" not in ready_of(cluster, "rule")["message"]
    told = operator.recorder.told
    await until(lambda: told)  # the Event comes after the status
    assert [event[1:3] for event in told] == [("Warning", "InternalError")]
    monkeypatch.setattr(reconciler, "summarize_rule", original)
    await until(lambda: reason(cluster) == "Synced")


async def test_a_tenants_name_is_refused_before_anything_is_watched(cluster, served):
    operator = Operator(cluster, tenant_rules=True)
    await operator.start()
    loop = "{% for i in range(99999) %}{{ i }}{% endfor %}"
    spec = {"source": {"kind": "ConfigMap", "name": "app"}, "transform": {"name": loop}}
    elsewhere(cluster, "rule", spec)
    await until(lambda: ready_of(cluster, "rule", "tenant").get("reason") == "NotTrusted")
    assert "a loop" in ready_of(cluster, "rule", "tenant")["message"]
    assert "finalizers" not in cluster.found("copyrators", "tenant", "rule")["metadata"]
    await operator.stop()
