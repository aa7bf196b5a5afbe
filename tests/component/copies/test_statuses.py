"""What a rule's status, its Events, the log and the metrics say of it."""

import logging

import pytest
from tests.component.copies.conftest import (
    HOME,
    Operator,
    by_name,
    copy_app,
    counts,
    edit_rule,
    make_rule,
    ready_of,
    reason,
    status_of,
)
from tests.component.copies.fake_cluster import path_of
from tests.component.kube.fake_api import error, until
from tests.gitops import argocd, flux

from copyrator.api import names
from copyrator.api.reasons.rules import RuleEvent
from copyrator.copies.timing import CopyTiming

# --- A rule that matches no namespace is Ready, and says that it matches none ---------------------


async def test_a_pattern_that_matches_nothing_is_said_until_a_namespace_matches(cluster, operator):
    cluster.namespace("team-a")
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    targets = {
        "namespaces": ["tem-*"],
        "exclude": ["tem-x"],
        "selector": {"matchLabels": {"a": "b"}},
    }
    make_rule(cluster, "rule", by_name("app", targets=targets))
    await until(lambda: reason(cluster) == "NoTargets")
    assert ready_of(cluster)["status"] == "True"
    assert ready_of(cluster)["message"] == (
        "the rule matches no namespace: its targets are tem-* except tem-x with labels a=b"
    )
    assert counts(cluster)["desired"] == 0
    cluster.namespace("tem-1", a="b")
    await until(lambda: reason(cluster) == "Synced")
    assert cluster.copies("configmaps", "app") == ["tem-1"]


async def test_a_source_that_may_go_nowhere_is_said(cluster, operator):
    cluster.namespace("team-a")
    metadata = {"annotations": {names.ANN_ALLOW_TO: "other-*"}}
    cluster.object("configmaps", HOME, "app", metadata=metadata, data={"key": "value"})
    make_rule(cluster, "rule", by_name("app"))
    await until(lambda: reason(cluster) == "NoTargets")
    assert names.ANN_ALLOW_TO in ready_of(cluster)["message"]


CURES = (
    'spec.targets: must say which namespaces get a copy: set namespaces (["*"] for all), or '
    "selector with at least one label under matchLabels or matchExpressions"
)


@pytest.mark.parametrize("targets", [None, {"exclude": ["team-b"]}])
async def test_a_stored_rule_without_targets_keeps_its_copies_until_it_is_deleted(
    cluster, operator, timing, targets
):
    """As an upgrade finds it: earlier versions took its targets for every namespace."""
    copy_app(cluster, "team-a", "team-b")
    await until(lambda: cluster.copies("configmaps", "app") == ["team-a", "team-b"])
    await until(lambda: reason(cluster) == "Synced")
    await operator.stop()
    path = f"/apis/flant.com/v1/namespaces/{HOME}/copyrators/rule"
    found = cluster.found("copyrators", HOME, "rule")
    cluster.write(path, {**found, "spec": by_name("app", targets=targets)})

    again = Operator(cluster, timing=timing)
    await again.start()
    try:
        await until(lambda: reason(cluster) == "InvalidSpec")
        cluster.namespace("team-c")
        cluster.object("configmaps", HOME, "app", data={"key": "newer"})
        await again.settled()
        assert ready_of(cluster)["message"] == CURES
        assert cluster.copies("configmaps", "app") == ["team-a", "team-b"]
        assert cluster.found("configmaps", "team-a", "app")["data"] == {"key": "value"}
        cluster.drop(path)
        await until(lambda: cluster.found("copyrators", HOME, "rule") is None, "it is let go")
        assert cluster.copies("configmaps", "app") == []
    finally:
        await again.stop()


# --- What Argo CD and Flux make of rules, by the statuses that the operator writes ----------------


def found(cluster):
    return cluster.found("copyrators", HOME, "rule")


def health(cluster):
    """The health in Argo CD, in Flux by kstatus, and there by the expressions."""
    return argocd(found(cluster))[0], flux(found(cluster), by_exprs=False), flux(found(cluster))


async def test_a_rule_is_healthy_degraded_or_suspended(cluster, operator):
    cluster.namespace("team-a")
    make_rule(cluster, "rule", by_name("app"))
    await until(lambda: reason(cluster) == "SourceNotFound")
    assert health(cluster) == ("Degraded", "InProgress", "InProgress")
    assert argocd(found(cluster))[1] == f"SourceNotFound: there is no ConfigMap app in {HOME}"

    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    await until(lambda: reason(cluster) == "Synced")
    assert health(cluster) == ("Healthy", "Current", "Current")

    edit_rule(cluster, suspend=True)
    await until(lambda: reason(cluster) == "Suspended")
    assert health(cluster) == ("Suspended", "Current", "Current")
    edit_rule(cluster, suspend=False, mode="Plan")
    await until(lambda: reason(cluster) == "Planned")
    assert health(cluster) == ("Suspended", "InProgress", "Current")
    edit_rule(cluster, mode="Apply", limit="x")
    await until(lambda: reason(cluster) == "InvalidSpec")
    assert health(cluster) == ("Degraded", "Failed", "Failed")


# --- Fields that the API server doesn't know: it drops them with a warning, and the status says so


MESSAGE = (
    "the API server knows no field ingres and drops it: the copies are written without it. "
    "Correct spec.template, or the source"
)


def put_rule(cluster, *targets, **template):
    """Create or edit it; an edit keeps its status and finalizers."""
    template = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, **template}
    spec = {"template": template, "targets": {"namespaces": list(targets)}}
    if cluster.found("copyrators", HOME, "rule"):
        edit_rule(cluster, **spec)
    else:
        make_rule(cluster, "rule", spec)


def condition(cluster):
    return {one["type"]: one for one in status_of(cluster).get("conditions", ())}.get(
        "FieldsDropped"
    )


def stage(cluster, *names):
    cluster.unknown = frozenset({"ingres", "egres"})
    for name in names:
        cluster.namespace(name)


async def test_a_dropped_field_is_named_and_the_copy_is_written_with_one_request(cluster, operator):
    stage(cluster, "a", "b")
    put_rule(cluster, "a", "b", ingres=[1], data={"k": "v"})
    await until(lambda: condition(cluster), "the condition")
    assert reason(cluster) == "Synced"
    found = condition(cluster)
    assert (found["status"], found["reason"], found["message"]) == (
        "True",
        "UnknownField",
        MESSAGE,
    )
    assert status_of(cluster)["droppedFields"] == ["ingres"]
    assert sorted(verb for verb, _ in cluster.writes("configmaps")) == ["create", "create"]
    assert cluster.found("configmaps", "a", "x")["data"] == {"k": "v"}
    await operator.settled()
    assert [told[2] for told in operator.recorder.told if told[2] == "UnknownField"] == [
        "UnknownField"
    ]


async def test_metadata_that_copies_never_have_are_named_too(cluster, operator):
    """They aren't even sent; what kubectl writes into every file isn't named."""
    stage(cluster, "a")
    metadata = {"name": "x", "lables": {"a": "b"}, "creationTimestamp": None}
    make_rule(
        cluster,
        "rule",
        {
            "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata},
            "targets": {"namespaces": ["a"]},
        },
    )
    await until(lambda: status_of(cluster).get("droppedFields") == ["metadata.lables"])


# --- What the metrics and a status say of rules and copies, bounded at any size -------------------


def sample(operator, name, **labels):
    return operator.metrics.registry.get_sample_value(f"copyrator_{name}", labels) or 0


async def test_gauges_tell_rules_by_reason_and_copies_by_state(cluster, operator):
    for name in ("one", "two", "three"):
        cluster.namespace(name)
    cluster.object("configmaps", "three", "app", data={"key": "theirs"})
    copy_app(cluster)
    make_rule(cluster, "none", by_name("missing"))
    await until(lambda: reason(cluster) == "PartialFailure")
    await until(lambda: reason(cluster, "none") == "SourceNotFound")
    await until(lambda: sample(operator, "copies", state="ready") == 2)
    assert sample(operator, "copies", state="desired") == 3
    assert sample(operator, "copies", state="conflicts") == 1
    assert sample(operator, "rules", reason="PartialFailure") == 1
    assert sample(operator, "rules", reason="SourceNotFound") == 1
    cluster.gone("copyrators", HOME, "rule")
    await until(lambda: cluster.found("copyrators", HOME, "rule") is None)
    await until(lambda: sample(operator, "copies", state="desired") == 0)
    assert sample(operator, "rules", reason="PartialFailure") == 0
    assert sample(operator, "copy_writes_total", action="create", resource="configmaps") == 2
    assert sample(operator, "copy_writes_total", action="delete", resource="configmaps") == 2


# --- Owners of target namespaces learn by an Event why a copy is missing; others learn nothing ----


def told(operator):
    """The Events in other namespaces than the rule's."""
    return [
        (ref.namespace, f"{ref.kind}/{ref.name}", kind, reason, message)
        for ref, kind, reason, message in operator.recorder.told
        if reason != RuleEvent.COPIES_CHANGED and ref.kind != "CopyratorRule"
    ]


async def test_a_refused_write_is_told_once_in_its_namespace(cluster, operator):
    for name in ("team-a", "team-b"):
        cluster.namespace(name)
    cluster.object("configmaps", HOME, "app", data={"key": "value"})

    async def refuse(request):
        if "/namespaces/team-a/" in request.path:
            return await error(403, "Forbidden", message="exceeded quota: small")(request)
        return await cluster.serve(request)

    cluster.always("create", refuse)
    make_rule(cluster, "rule", by_name("app"))
    await until(lambda: counts(cluster).get("failed") == 1)
    first = len(cluster.of("create"))
    await until(lambda: len(cluster.of("create")) >= first + 2)  # it is tried again
    assert told(operator) == [
        (
            "team-a",
            "ConfigMap/app",
            "Warning",
            "QuotaExceeded",
            f"the rule {HOME}/rule can't write this copy: exceeded quota: small",
        )
    ]


async def test_an_object_in_the_way_is_told(cluster, operator):
    cluster.namespace("team-a")
    cluster.object("configmaps", "team-a", "app", data={"key": "theirs"})
    copy_app(cluster)
    await until(lambda: told(operator))
    (one,) = told(operator)
    assert one[:4] == ("team-a", "ConfigMap/app", "Warning", "Conflict")


# --- Writes leave a trace: one log line and one Event for each burst, with numbers and a cause ----


TEAMS = ["team-a", "team-b", "team-c"]


class Traces:
    """The trace lines of the log, and the Events, as they appear."""

    def __init__(self, caplog, operator) -> None:
        caplog.set_level(logging.INFO, logger="copyrator.copies.rules.status")
        self.caplog = caplog
        self.told = operator.recorder.told

    def events(self):
        return [
            (ref.namespace, ref.name, kind, message)
            for ref, kind, reason, message in self.told
            if reason == RuleEvent.COPIES_CHANGED
        ]

    def lines(self):
        return [
            record.getMessage()
            for record in self.caplog.records
            if record.name == "copyrator.copies.rules.status" and record.levelno == logging.INFO
        ]

    async def next(self):
        """Wait for a burst's report; the one line that it is."""
        await until(self.events)
        lines = self.lines()
        assert self.events() == [
            (HOME, "rule", "Normal", line.removeprefix(f"{HOME}/rule: ")) for line in lines
        ]
        self.caplog.clear()
        self.told.clear()
        assert len(lines) == 1, lines
        return lines[0].removeprefix(f"{HOME}/rule: ")


@pytest.fixture
async def traces(cluster, operator, caplog):
    """After a rule was created whose copies are in TEAMS."""
    found = Traces(caplog, operator)
    copy_app(cluster, *TEAMS, targets={"namespaces": ["team-*"]})
    assert await found.next() == "created 3 copies: the rule is new"
    return found


async def test_each_burst_has_its_cause(cluster, operator, traces):
    cluster.object("configmaps", HOME, "app", data={"key": "other"})
    assert await traces.next() == "updated 3 copies: source home/app is new or changed"
    cluster.namespace("team-d")
    assert await traces.next() == "created 1 copy: namespace team-d is new or changed"
    cluster.gone("configmaps", "team-a", "app")
    assert await traces.next() == "created 1 copy: deletion by another client"
    copy = cluster.found("configmaps", "team-b", "app")
    cluster.write(path_of("configmaps", "team-b", "app"), {**copy, "data": {"key": "mine"}})
    assert await traces.next() == "updated 1 copy: changes by another client"
    edit_rule(cluster, targets={"namespaces": ["*-a", "*-b"]})
    assert await traces.next() == (
        "deleted 2 copies: targets changed from team-* to *-a, *-b by generation 2 of the rule"
    )
    cluster.gone("copyrators", HOME, "rule")
    assert await traces.next() == "deleted 2 copies: the rule is being deleted"


# --- Rules that can't be meant: said with the field's path, and what stands there stays -----------


SOURCE = {"kind": "ConfigMap", "name": "app"}
BY_LABEL = {"kind": "ConfigMap", "selector": {"matchLabels": {"app": "x"}}}
TEMPLATE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}


CASES = [
    ("spec.targets", {"spec": {"source": SOURCE, "targets": {"namespaces": []}}}),
    ("spec.transform.name", {"spec": {"source": SOURCE, "transform": {"name": "{{ x"}}}),
    ("spec.template", {"spec": {"template": {**TEMPLATE, "data": {"key": "{% if %}"}}}}),
    ("ruleType", {"ruleType": "pod", "selector": {"a": "b"}}),
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


# --- A rule whose source is another rule's copy: which one, and whether both are a loop -----------


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
        (spec("l1", "cfg", "l2"), spec("l2", "cfg", "*", onConflict="Overwrite"), LOOP),
        (selected("l1", "l2"), selected("l2", "l1"), LOOP),
        (spec("l1", "cfg", "l2"), selected("l2", "l1"), LOOP),
        (
            spec("l1", "cfg", "l2", **named("x-{{ source.name }}")),
            spec("l2", "x-cfg", "l1", **named("{{ source.name | replace('x-', '') }}")),
            LOOP,
        ),
        (spec("l1", "cfg", "l2"), spec("l2", "cfg", "l3"), CHAIN),
        (spec("l1", "cfg", "l2"), spec("l2", "cfg", "l1", **named("other")), CHAIN),
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


async def test_what_is_never_copied_for_another_reason_is_named_with_it(cluster, operator):
    cluster.object("secrets", "l1", "sh.helm.v1", type="helm.sh/release.v1", data={})
    make_rule(cluster, "second", spec("l1", "sh.helm.v1", "l2", kind="Secret"))
    await until(lambda: reason(cluster, "second") == "SourceNotFound")
    condition = cluster.found("copyrators", HOME, "second")["status"]["conditions"][0]
    assert condition["message"] == "l1/sh.helm.v1 is never copied: it is a Helm release"


@pytest.mark.parametrize(
    ("first", "second", "loop"),
    [
        (
            spec("l1", "cfg", "l2", **named("pool")),
            spec("l2", "pool", "l1", **named("cfg")),
            True,
        ),
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


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({"name": "app"}, "there is no ConfigMap app in home"),
        ({"selector": {"matchLabels": {"a": "b"}}}, "no ConfigMap in home matches a=b"),
    ],
)
async def test_a_missing_source_is_a_failure_whatever_the_targets(cluster, operator, source, says):
    spec = {"source": {"kind": "ConfigMap", **source}, "targets": {"namespaces": ["tem-*"]}}
    make_rule(cluster, "rule", spec)
    await until(lambda: reason(cluster) == "SourceNotFound")
    assert says in ready_of(cluster)["message"]
