"""Writes leave a trace: one log line and one Event for each burst, with numbers and a cause."""

import logging

import pytest
from tests.component.copies.conftest import (
    HOME,
    Operator,
    copy_app,
    edit_rule,
    make_rule,
    reason,
)
from tests.component.copies.fake_cluster import path_of
from tests.component.kube.fake_api import until

from copyrator.api import names
from copyrator.api.reasons.rules import RuleEvent

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
    cluster.namespace("team-d", **{names.LABEL_IGNORE: "true"})
    assert await traces.next() == "deleted 1 copy: namespace team-d no longer matches"
    edit_rule(cluster, targets={"namespaces": ["team-a", "team-b"]})
    assert await traces.next() == (
        "deleted 1 copy: targets changed from team-* to team-a, team-b by generation 2 of the rule"
    )
    cluster.gone("configmaps", HOME, "app")
    assert await traces.next() == "deleted 2 copies: source home/app no longer exists or matches"
    cluster.object("configmaps", HOME, "app", data={"key": "back"})
    assert await traces.next() == "created 2 copies: source home/app is new or changed"
    cluster.gone("copyrators", HOME, "rule")
    assert await traces.next() == "deleted 2 copies: the rule is being deleted"


async def test_all_sources_that_are_the_cause_are_named_where_a_template_has_several(
    cluster, operator, caplog
):
    traces = Traces(caplog, operator)
    cluster.namespace("team-a")
    for name in ("one", "two", "three"):
        cluster.object(
            "configmaps", HOME, name, data={"key": name}, metadata={"labels": {"part": "yes"}}
        )
    parts = {"as": "parts", "kind": "ConfigMap", "selector": {"matchLabels": {"part": "yes"}}}
    keys = "{% for part in sources.parts %}{{ part.data.key }} {% endfor %}"
    template = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "made"},
        "data": {"keys": keys},
    }
    targets = {"namespaces": ["team-*"]}
    make_rule(cluster, "rule", {"sources": [parts], "template": template, "targets": targets})
    assert await traces.next() == "created 1 copy: the rule is new"
    for name in ("one", "three"):
        cluster.gone("configmaps", HOME, name)
    assert await traces.next() == (
        "updated 1 copy: sources home/one, home/three are new, changed or gone"
    )


async def test_nothing_is_said_of_nothing(cluster, operator, traces, caplog):
    await operator.stop()
    caplog.clear()
    again = Operator(cluster)
    await again.start()
    try:
        await until(lambda: reason(cluster) == "Synced")
        await again.settled(3)
        assert traces.lines() == []
        cluster.gone("configmaps", "team-a", "app")
        await until(lambda: cluster.copies("configmaps", "app") == TEAMS)
    finally:
        await again.stop()
    assert traces.lines() == [f"{HOME}/rule: created 1 copy: deletion by another client"]
