"""Many rules at once: copies come first, a status once a burst, Events once for all rules."""

import asyncio
import gc
import math
from dataclasses import replace

import pytest
from tests.component.copies.conftest import (
    HOME,
    WORKERS,
    Operator,
    by_name,
    counts,
    make_rule,
    reason,
    synced,
)
from tests.component.kube.fake_api import until
from tests.steps import STEP_SECONDS, measured_steps

from copyrator.api.keys import RuleKey
from copyrator.api.names import ANN_RULES, RULE_KIND
from copyrator.api.reasons.rules import RuleEvent
from copyrator.cli.get.describe import events_of
from copyrator.copies.rules import trace
from copyrator.copies.rules.state import RuleState
from copyrator.copies.timing import DEFAULT_TIMING
from copyrator.kube.client.answers import Page
from copyrator.workqueue import queue

RULES = [f"rule-{number:02}" for number in range(20)]
TEAMS = [f"team-{number}" for number in range(5)]


def make_rules(cluster, targets):
    for name in RULES:
        cluster.object("configmaps", HOME, name, data={"key": name})
        make_rule(cluster, name, by_name(name, targets={"namespaces": targets}))


@pytest.mark.parametrize("timing", [replace(DEFAULT_TIMING, settling=1.0)])
async def test_a_burst_is_one_status_for_each_rule_and_one_event_for_all(
    cluster, operator, monkeypatch
):
    monkeypatch.setattr(trace, "QUIET", math.inf)  # also on a slow machine it is one burst
    cluster.namespace("team-first")
    make_rules(cluster, ["team-*"])
    await until(lambda: all(reason(cluster, name) == "Synced" for name in RULES))
    await operator.settled()
    monkeypatch.setattr(trace, "QUIET", 0.0)
    await until(
        lambda: [one for one in operator.recorder.told if one[2] == RuleEvent.COPIES_CHANGED]
    )
    monkeypatch.setattr(trace, "QUIET", math.inf)
    cluster.seen.clear()
    operator.recorder.told.clear()
    for name in TEAMS:
        cluster.namespace(name)
    right = len(TEAMS) + 1
    await until(lambda: all(counts(cluster, name)["ready"] == right for name in RULES))
    written = [path for _, path in cluster.writes("configmaps")]
    assert len(written) == len(RULES) * len(TEAMS)
    statuses = [path for _, path in cluster.writes("copyrators") if path.endswith("/status")]
    assert sorted(path.split("/")[-2] for path in statuses) == RULES
    monkeypatch.setattr(trace, "QUIET", 0.0)
    await until(lambda: operator.recorder.told)
    ((about, kind, why, text),) = operator.recorder.told
    assert (about.kind, about.namespace, about.name) == ("Namespace", HOME, HOME)
    assert (kind, why) == ("Normal", RuleEvent.COPIES_CHANGED)
    assert text == (
        "rules rule-00, rule-01, rule-02 and 17 more: created 100 copies: "
        "namespaces team-0, team-1, team-2 and 2 more are new or changed"
    )
    assert operator.recorder.annotations == {ANN_RULES: ",".join(RULES)}


async def test_the_event_of_all_rules_is_found_by_each_of_their_names():
    """As `copyrator describe rule` asks for it: its object is the Namespace."""
    event = {
        "metadata": {"name": "e", "annotations": {ANN_RULES: "rule-01,rule-02"}},
        "involvedObject": {"kind": "Namespace", "name": HOME, "uid": "of the namespace"},
    }

    class Events:
        async def list_pages(self, _resource, _namespace, *, field_selector):
            yield Page([event] if field_selector == "involvedObject.kind=Namespace" else [], "1")

    def names(name, kind=RULE_KIND):
        metadata = {"name": name, "namespace": HOME, "uid": f"of {name}"}
        return events_of(Events(), kind, {"metadata": metadata})

    assert len(await names("rule-02")) == 1
    assert await names("rule-0") == await names("rule-02", "Bundle") == []


async def sync_rule(cluster):
    """A rule with a copy for each team."""
    await synced(cluster, *TEAMS)


async def change_source(cluster):
    """For ever: faster than the copies settle."""
    number = 0
    while True:
        number += 1
        cluster.object("configmaps", HOME, "app", data={"key": str(number)})
        await asyncio.sleep(DEFAULT_TIMING.settling / 4)


@pytest.mark.parametrize("timing", [replace(DEFAULT_TIMING, unreported=1.0)])
async def test_under_constant_change_a_status_is_written_in_time(cluster, operator):
    await sync_rule(cluster)

    async def serve_slowly(request):
        await asyncio.sleep(DEFAULT_TIMING.settling / 2)
        return await cluster.serve(request)

    cluster.always("update", serve_slowly)  # so that some copies are never in sync
    changing = asyncio.create_task(change_source(cluster))
    try:
        await until(lambda: reason(cluster) == "Progressing")
    finally:
        changing.cancel()


async def test_a_status_comes_after_the_copies_of_all_rules(cluster, monkeypatch):
    monkeypatch.setattr(queue, "STATUS_PATIENCE", math.inf)
    operator = Operator(cluster, timing=replace(DEFAULT_TIMING, settling=0.02))
    await operator.start()
    make_rules(cluster, ["team-*"])
    await until(lambda: all(reason(cluster, name) == "NoTargets" for name in RULES))
    await operator.settled()
    cluster.seen.clear()
    operator.queue.pause()
    for name in TEAMS:
        cluster.namespace(name)
    await until(
        lambda: (
            sum(not isinstance(key, RuleKey) for key in operator.queue._ready)
            == len(RULES) * len(TEAMS)
        )
    )
    operator.queue.serve()
    await until(lambda: all(counts(cluster, name)["ready"] == len(TEAMS) for name in RULES))
    order = [one for one in cluster.seen if one.verb in ("create", "patch")]
    copies = [number for number, one in enumerate(order) if "/configmaps" in one.path]
    statuses = [number for number, one in enumerate(order) if one.path.endswith("/status")]
    # Those that were being written as the first status was due may reach the server after it.
    assert sum(number > min(statuses) for number in copies) < WORKERS


async def test_the_check_of_very_many_rules_is_many_short_steps(cluster, operator):
    await operator.workers.drain(0)
    context = operator.controller._context
    keys = [RuleKey(HOME, f"rule-{number}") for number in range(100_000)]
    context.rule_states.update({key: RuleState(key) for key in keys})
    context.metrics.copies_contested.set(-1)  # it is set last
    found = context.metrics.registry.get_sample_value
    with measured_steps() as steps:
        check = asyncio.create_task(operator.controller._keep_watch())
        await until(lambda: found("copyrator_copies_contested") == 0)
        check.cancel()
        await asyncio.gather(check, return_exceptions=True)
    assert context.rule_states[keys[-1]].watch_health
    assert steps.longest < STEP_SECONDS, steps.where


async def test_deleted_rules_leave_no_cycles(cluster, operator):
    """The operator excludes what lives long from the collection of garbage."""
    for name in RULES:
        cluster.object("configmaps", HOME, name, data={"key": name})
        make_rule(cluster, name, by_name(name))
    await until(lambda: all(reason(cluster, name) for name in RULES))
    await operator.settled()
    gc.collect()
    for name in RULES:
        cluster.gone("copyrators", HOME, name)
    await until(lambda: not operator.controller._context.rule_states, "they are gone")
    await operator.settled()
    debug = gc.get_debug()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        left = {type(one).__name__ for one in gc.garbage}
    finally:
        gc.set_debug(debug)
        gc.garbage.clear()
    assert left.isdisjoint({"Rule", "RuleSpec", "RuleState", "CompiledRule", "Globs"})


@pytest.mark.parametrize("timing", [replace(DEFAULT_TIMING, unreported=600.0)])
async def test_a_copy_that_can_t_be_determined_is_in_it_while_others_are_written(cluster, operator):
    for name in TEAMS:
        cluster.namespace(name, team=name)
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    named = by_name("app", transform={"name": "{{ namespace.labels.team }}"})
    make_rule(cluster, "rule", {**named, "targets": {"namespaces": ["team-*"]}})
    await until(lambda: reason(cluster) == "Synced")
    changing = asyncio.create_task(change_source(cluster))
    try:
        cluster.namespace(TEAMS[0])
        await until(lambda: counts(cluster).get("failed") == 1)
    finally:
        changing.cancel()
