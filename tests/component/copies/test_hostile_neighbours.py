"""Globs and selectors of tenants: read once, and never a long step for everybody else."""

import asyncio

import pytest
from tests.component.copies.conftest import (
    HOME,
    by_name,
    copy_app,
    counts,
    is_failing,
    make_rule,
    reason,
)
from tests.component.kube.fake_api import until
from tests.steps import STEP_SECONDS, measured_steps

from copyrator.api import names, selectors
from copyrator.api.rule_spec import Targets
from copyrator.api.selectors import Globs, LabelSelector, Operator, Requirement
from copyrator.copies.targets.namespaces import Namespace, Namespaces
from copyrator.workqueue.fairness import TimeSlice

TARGETS = [f"team-{number:03}" for number in range(100)]
STARS = tuple(("*a*b" * 15)[:58] + str(number) for number in range(1_000))
LARGE = ",".join(f"{'x' * 40}-{number}" for number in range(4_500))
"""200 KB of names."""


@pytest.fixture
def parsed(monkeypatch):
    """Every text of an annotation that was parsed."""
    texts = []
    parse = selectors._parse_consent

    def counting(text):
        texts.append(text)
        return parse(text)

    monkeypatch.setattr(selectors, "_parse_consent", counting)
    return texts


def source(cluster, text, **data):
    annotations = {names.ANN_ALLOW_TO: text}
    cluster.object("configmaps", HOME, "app", metadata={"annotations": annotations}, data=data)


async def test_an_annotation_of_200_kb_is_parsed_once_for_each_change_of_its_source(
    cluster, operator, parsed
):
    for name in TARGETS:
        cluster.namespace(name)
    source(cluster, f"{LARGE},team-*", key="value")
    make_rule(cluster, "rule", by_name("app"))
    await until(lambda: counts(cluster).get("ready") == len(TARGETS))
    assert len(parsed) == 1
    source(cluster, f"{LARGE},team-*", key="new")
    await until(lambda: cluster.found("configmaps", TARGETS[-1], "app")["data"] == {"key": "new"})
    await operator.settled()
    assert len(parsed) == 2


async def test_a_source_with_too_many_globs_is_copied_nowhere_and_says_so(cluster, operator):
    cluster.namespace("team")
    source(cluster, ",".join(["team", *STARS, "one-too-many-*"]), key="value")
    make_rule(cluster, "rule", by_name("app"))
    await until(lambda: is_failing(cluster))
    (failure,) = cluster.found("copyrators", HOME, "rule")["status"]["failures"]
    assert (failure["namespace"], failure["name"]) == (HOME, "app")
    assert failure["reason"] == "NotAccepted"
    assert "1001 patterns" in failure["message"]
    await operator.settled()
    assert cluster.copies("configmaps", "app") == []


async def test_a_new_target_set_is_judged_in_slices_whatever_it_asks_for():
    namespaces = Namespaces()
    labels = {f"k{number}": "v63" for number in range(64)}
    for number in range(2_500):
        namespaces.put(Namespace(("ab" * 31)[:58] + f"{number:04}", labels=labels))
    values = tuple(f"v{number}" for number in range(64))
    selector = LabelSelector.of(
        Requirement(f"k{number}", Operator.NOT_IN, values[:-1]) for number in range(64)
    )
    hostile = Targets(namespaces=Globs(STARS), exclude=Globs(STARS[:-1]), selector=selector)
    targets = namespaces.targets(hostile)
    with measured_steps() as steps:
        await asyncio.create_task(targets.settle(TimeSlice()))
    assert steps.longest < STEP_SECONDS, steps.where
    assert targets.settled


async def test_a_namespace_makes_a_trusted_rules_copies_due_before_any_tenants_are_judged(
    cluster, operator
):
    copy_app(cluster)
    await until(lambda: reason(cluster) == "NoTargets")
    await operator.settled()
    sets = [
        operator.namespaces.targets(Targets(exclude=Globs((*STARS[:50], f"no-{number}"))), "tenant")
        for number in range(300)
    ]
    cluster.namespace("team")
    await until(lambda: cluster.copies("configmaps", "app") == ["team"])
    assert not any(targets.settled for targets in sets)


async def test_one_source_that_cant_be_planned_cuts_off_no_other(cluster, operator, monkeypatch):
    from copyrator.copies.sources.bindings import SourceBinding  # noqa: PLC0415

    covers = SourceBinding.covers

    def failing(self, namespace):
        if self.source.name == "bad":
            raise ValueError("as no code should")
        return covers(self, namespace)

    monkeypatch.setattr(SourceBinding, "covers", failing)
    for name in ("bad", "good"):
        cluster.object("configmaps", HOME, name, data={"key": "value"})
        make_rule(cluster, name, by_name(name))
    await until(lambda: reason(cluster, "good") == "NoTargets")
    await until(lambda: reason(cluster, "bad") not in ("None", "Progressing"))
    cluster.namespace("team")
    await until(lambda: cluster.copies("configmaps", "good") == ["team"])
    await until(lambda: is_failing(cluster, "bad"))
