"""A rule whose source is another rule's copy: which one, and whether both are a loop."""

import pytest
from tests.component.copies.conftest import HOME, make_rule, reason
from tests.component.kube.fake_api import until


def spec(source, name, target, kind="ConfigMap", **more):
    return {
        "source": {"kind": kind, "namespace": source, "name": name},
        "targets": {"namespaces": [target]},
        **more,
    }


def selected(source, target):
    found = {"kind": "ConfigMap", "namespace": source, "selector": {"matchLabels": {"app": "x"}}}
    return {"source": found, "targets": {"namespaces": [target]}}


def named(name):
    return {"transform": {"name": name}}


LOOP = (
    "{place} is a copy of home/first, and a copy is never a source; home/first and home/second are "
    "a loop: each copies to where the other one's source is. Delete one of the rules, or change "
    "its targets"
)
CHAIN = (
    "{place} is a copy of home/first, and a copy is never a source; copy l1/cfg instead, or add "
    "these targets to home/first"
)


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (spec("l1", "cfg", "l2"), spec("l2", "cfg", "l1"), LOOP),
        (spec("l1", "cfg", "l2"), spec("l2", "cfg", "l1", onConflict="Overwrite"), LOOP),
        (spec("l1", "cfg", "l2"), spec("l2", "cfg", "*"), LOOP),
        (selected("l1", "l2"), selected("l2", "l1"), LOOP),
        (spec("l1", "cfg", "l2"), selected("l2", "l1"), LOOP),
        (
            spec("l1", "cfg", "l2", **named("pool")),
            spec("l2", "pool", "l1", **named("cfg")),
            LOOP,
        ),
        (
            spec("l1", "cfg", "l2", **named("x-{{ source.name }}")),
            spec("l2", "x-cfg", "l1", **named("{{ source.name | replace('x-', '') }}")),
            LOOP,
        ),
        (spec("l1", "cfg", "l2"), spec("l2", "cfg", "l3"), CHAIN),
        (spec("l1", "cfg", "l2"), spec("l2", "cfg", "l1", **named("other")), CHAIN),
        (spec("l1", "cfg", "l2", **named("pool")), spec("l2", "pool", "l1"), CHAIN),
    ],
)
async def test_a_rule_whose_source_is_a_copy_names_the_other_rule(
    cluster, operator, first, second, said
):
    for name in ("l1", "l2", "l3"):
        cluster.namespace(name)
    cluster.object(
        "configmaps", "l1", "cfg", metadata={"labels": {"app": "x"}}, data={"key": "value"}
    )
    make_rule(cluster, "first", first)
    await until(lambda: reason(cluster, "first") == "Synced")
    make_rule(cluster, "second", second)
    await until(lambda: reason(cluster, "second") == "SourceNotFound")
    (copy,) = (name for name in ("cfg", "pool", "x-cfg") if cluster.found("configmaps", "l2", name))
    condition = cluster.found("copyrators", HOME, "second")["status"]["conditions"][0]
    assert condition["message"].replace(HOME, "home") == said.format(place=f"l2/{copy}")
    assert reason(cluster, "first") == "Synced"


async def test_of_a_template_the_other_rule_is_named_too(cluster, operator):
    cluster.namespace("l2")
    template = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cfg"}}
    make_rule(cluster, "first", {"template": template, "targets": {"namespaces": ["l2"]}})
    await until(lambda: reason(cluster, "first") == "Synced")
    make_rule(cluster, "second", spec("l2", "cfg", "l3"))
    await until(lambda: reason(cluster, "second") == "SourceNotFound")
    condition = cluster.found("copyrators", HOME, "second")["status"]["conditions"][0]
    assert condition["message"] == (
        f"l2/cfg is a copy of {HOME}/first, and a copy is never a source; add these targets to "
        f"{HOME}/first"
    )


async def test_what_is_never_copied_for_another_reason_is_named_with_it(cluster, operator):
    cluster.object("secrets", "l1", "sh.helm.v1", type="helm.sh/release.v1", data={})
    make_rule(cluster, "second", spec("l1", "sh.helm.v1", "l2", kind="Secret"))
    await until(lambda: reason(cluster, "second") == "SourceNotFound")
    condition = cluster.found("copyrators", HOME, "second")["status"]["conditions"][0]
    assert condition["message"] == "l1/sh.helm.v1 is never copied: it is a Helm release"


@pytest.mark.parametrize(
    ("first", "second", "loop"),
    [
        (spec("l1", "cfg", "l2"), spec("l2", "cfg", "l1"), True),
        (
            spec("l1", "cfg", "l2", **named("pool")),
            spec("l2", "pool", "l1", **named("cfg")),
            True,
        ),
        (spec("l1", "cfg", "l2"), spec("l2", "cfg", "l3"), False),
        (spec("l1", "cfg", "l2"), spec("l2", "cfg", "l1", **named("other")), False),
    ],
)
async def test_rules_onto_each_others_sources_are_named_as_a_loop(
    cluster, operator, first, second, loop
):
    for name in ("l1", "l2", "l3"):
        cluster.namespace(name)
    for place in (("l1", "cfg"), ("l2", "cfg"), ("l2", "pool")):
        cluster.object("configmaps", *place, data={"from": "/".join(place)})
    make_rule(cluster, "second", {**second, "onConflict": "Overwrite"})
    await until(lambda: reason(cluster, "second"))
    make_rule(cluster, "first", {**first, "onConflict": "Overwrite"})

    def said(name):
        status = (cluster.found("copyrators", HOME, name) or {}).get("status") or {}
        return [one["message"] for one in status.get("failures", ())]

    whole = f"{HOME}/second and {HOME}/first are a loop"
    start = f"the object is the source of the rule {HOME}/second, and is never overwritten"
    await until(lambda: any(one.startswith(start) for one in said("first")), f"{said('first')}")
    assert any(whole in one for one in said("first")) == loop
