"""Rollouts of the workloads that use a copy."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.replacing import replace
from tests.targets import EVERYWHERE

from copyrator.api import names
from copyrator.api.keys import CopyKey, RuleKey
from copyrator.api.rollout import UNHEALTHY_BEFORE, Consumer, Rollout, RolloutState
from copyrator.api.rule_spec import RuleSpec
from copyrator.api.rule_status import NO_STATUS, RuleStatus
from copyrator.api.selectors import LabelSelector
from copyrator.api.text import format_time
from copyrator.copies.rollout.progress import Rollouts
from copyrator.copies.rollout.steps import (
    RESTARTED_FOR,
    ConsumerState,
    RestartCause,
    RolloutBarrier,
    TargetNamespace,
    Wanted,
    begin,
    in_order,
    names_used,
    newly_unhealthy,
    next_step,
    paused,
    portion,
    read_consumer,
    restart_patch,
    share,
    to_restart,
    unhealthy,
)
from copyrator.copies.rules.rules import Rule
from copyrator.copies.rules.state import CompiledRule, RuleState
from copyrator.copies.seal.sealing import Sealer
from copyrator.copies.sources.bindings import BindingIndex, CopyRequest, SourceBinding
from copyrator.copies.sources.records import SourceReader
from copyrator.copies.targets.namespaces import Namespace, Namespaces
from copyrator.copies.targets.ownership import ACCEPTED, Shapes
from copyrator.copies.targets.planning import Action, Cause, TargetState, plan_copy
from copyrator.copies.targets.records import Copies, CopyRecord
from copyrator.metrics import Metrics
from copyrator.settings.config import Settings
from copyrator.workqueue.fairness import TimeSlice
from hostile.mangled import JSON

# --- The steps of a rollout, as tables ------------------------------------------------------------


NOW = datetime(2026, 1, 1, 12, 0, 0, 500_000, tzinfo=UTC)
OLD, NEW, NEWER = "a" * 32, "b" * 32, "c" * 32
ROLLOUT = Rollout(("1", "10%", "50%", "100%"))
TEN = [f"t{number}" for number in range(10)]
RUNNING = RolloutState(NEW, step=2, previous=OLD, started_at=NOW)
FAR = replace(RUNNING, step=4)
BEGUN = replace(RolloutState(NEW, step=1), started_at=NOW + timedelta(seconds=0.5))


@pytest.mark.parametrize(
    ("before", "wanted", "state"),
    [
        # nothing was known
        (None, Wanted(NEW, 10, 0), RolloutState(NEW)),
        (None, Wanted(NEW, 10, 10), BEGUN),
        # what is known is carried on, whatever the copies have
        (RUNNING, Wanted(NEW, 10, 9), RUNNING),
        (RUNNING, Wanted(NEW, 10, 0), RUNNING),
        (replace(RUNNING, step=9), Wanted(NEW, 10, 9), replace(RUNNING, step=4)),
        (RolloutState(NEW), Wanted(NEW, 10, 3), RolloutState(NEW)),
        # a change
        (RolloutState(OLD), Wanted(NEW, 10, 10), replace(BEGUN, previous=OLD)),
        (RolloutState(OLD), Wanted(NEW, 10, 1), replace(BEGUN, previous=OLD)),
        (RolloutState(OLD), Wanted(NEW, 10, 0), RolloutState(NEW)),
        # a change during a rollout
        (RUNNING, Wanted(NEWER, 10, 10), replace(BEGUN, content=NEWER, previous=OLD)),
        (FAR, Wanted(NEWER, 10, 10), replace(BEGUN, content=NEWER, previous=NEW)),
        # a change back
        (RUNNING, Wanted(OLD, 10, 1), RolloutState(OLD)),
        (RUNNING, Wanted(OLD, 10, 4), RolloutState(OLD)),
        (RUNNING, Wanted(OLD, 10, 5), replace(BEGUN, content=OLD, previous=OLD)),
        (FAR, Wanted(OLD, 10, 8), replace(BEGUN, content=OLD, previous=NEW)),
        # what few copies hold isn't called a change back, though most of them happen to be right
        (RUNNING, Wanted(NEWER, 10, 1), replace(BEGUN, content=NEWER, previous=OLD)),
        # half of them is not most
        (
            replace(RUNNING, step=3),
            Wanted(NEWER, 10, 9),
            replace(BEGUN, content=NEWER, previous=OLD),
        ),
        # fewer steps than before
        (
            replace(RUNNING, step=9),
            Wanted(NEWER, 10, 9),
            replace(BEGUN, content=NEWER, previous=NEW),
        ),
    ],
)
def test_what_the_wanted_content_asks_for(
    before: RolloutState | None, wanted: Wanted, state: RolloutState
) -> None:
    assert begin(ROLLOUT, before, wanted, NOW) == state


def test_the_selected_namespaces_come_first_and_the_rest_by_name() -> None:
    rollout = replace(ROLLOUT, first=LabelSelector.from_labels({"tier": "canary"}))
    canary = {"tier": "canary"}
    targets = [
        TargetNamespace("b", {}),
        TargetNamespace("z", canary),
        TargetNamespace("a", {"tier": "x"}),
        TargetNamespace("y", canary),
    ]
    assert in_order(rollout, targets, NOW) == ["y", "z", "a", "b"]
    assert in_order(ROLLOUT, targets, NOW) == ["a", "b", "y", "z"]


def test_namespaces_created_since_the_beginning_come_last() -> None:
    targets = [
        TargetNamespace("a", {}, "2026-01-01T12:00:02Z"),
        TargetNamespace("b", {}, "2026-01-01T12:00:01Z"),
        TargetNamespace("y", {}, "2026-01-01T12:00:00Z"),
        TargetNamespace("z", {}),
    ]
    since = datetime(2026, 1, 1, 12, 0, 1, tzinfo=UTC)
    assert in_order(ROLLOUT, targets, since) == ["y", "z", "a", "b"]
    assert in_order(ROLLOUT, targets, since + timedelta(seconds=2)) == ["a", "b", "y", "z"]


@pytest.mark.parametrize(
    ("step", "whole", "new", "after"),
    [(1, 1, 1, 3), (2, 1, 1, 3), (3, 5, 4, 4), (4, 10, 5, 0)],
)
def test_a_step_covers_its_total_and_one_that_adds_nothing_is_passed_over(
    step: int, whole: int, new: int, after: int
) -> None:
    assert share(ROLLOUT, step, TEN) == TEN[:whole]
    assert portion(ROLLOUT, step, TEN) == TEN[whole - new : whole]
    assert next_step(ROLLOUT, step, len(TEN)) == after
    assert (share(ROLLOUT, step, []), portion(ROLLOUT, step, [])) == ([], [])


def test_a_pause_is_never_shorter_than_asked_for() -> None:
    state = paused(RUNNING, NOW, 10)
    assert state.next_at == datetime(2026, 1, 1, 12, 0, 11, tzinfo=UTC)
    assert paused(RUNNING, NOW.replace(microsecond=0), 10).next_at == datetime(
        2026, 1, 1, 12, 0, 10, tzinfo=UTC
    )


def test_a_barrier_holds_old_copies_back_and_a_stopped_one_all() -> None:
    barrier = RolloutBarrier()
    assert barrier.holds("a", old=True)
    assert not barrier.holds("a", old=False)
    barrier.admit(2, ["a"], ["a"])
    assert ("a" in barrier, "b" in barrier, barrier.step, barrier.portion) == (
        True,
        False,
        2,
        ["a"],
    )
    assert not barrier.holds("a", old=True)
    assert barrier.holds("b", old=True)
    barrier.stop()
    assert barrier.holds("a", old=True)
    assert barrier.holds("a", old=False)
    barrier.open()
    assert not barrier.holds("b", old=True)
    assert "b" in barrier
    assert barrier.step == 0
    barrier.close()
    assert barrier.holds("b", old=True)


# --- No sequence of events gives changed content to more copies than the steps allow --------------


SEALER = Sealer(b"k" * 32)
KIND = "configmaps"
PAUSE = 600
START = datetime(2026, 1, 1, tzinfo=UTC)
OTHER = Shapes().read([{"manager": "kubectl", "operation": "Update", "fieldsV1": {}}]).shape


class Context:
    """What rollouts need of a CopyContext."""

    def __init__(self, world: World) -> None:
        self.index = BindingIndex()
        self.problems: dict[CopyKey, str] = {}
        self.settings = Settings(namespace="home")
        self.metrics = Metrics()
        self.namespaces = world.namespaces
        self.kinds = {KIND: self}
        self.copies = Copies(world.store)
        self.clock = lambda: world.now
        self.world = world

    def monotonic(self) -> float:
        return (self.world.now - START).total_seconds()


class World:
    """The cluster, and the simulation's own account of it."""

    def __init__(self, steps: list[str], targets: int) -> None:
        self.now = START
        self.store: dict[tuple[str, str], CopyRecord] = {}
        self.namespaces = Namespaces()
        self.versions = 0
        self.source = 0
        self.status = NO_STATUS
        self.body = {
            "metadata": {"name": "r", "namespace": "home", "generation": 1, "uid": "u"},
            "spec": {
                "source": {"kind": "ConfigMap", "name": "x"},
                "targets": EVERYWHERE,
                "rollout": {"steps": steps, "pause": f"{PAUSE}s"},
            },
        }
        self.holds: dict[str, int] = {}
        """The content of each copy, by namespace."""
        self.beyond: set[str] = set()
        """New namespaces and healed copies since the last change, and what was right before it."""
        self.failing: set[str] = set()
        for number in range(targets):
            self.namespaces.put(Namespace(f"t{number:02}"))
        self.operator = Operator(self)
        self.work()
        assert self.of_source() == len(self.holds) == targets
        self.beyond.clear()

    def of_source(self) -> int:
        return sum(one == self.source for one in self.holds.values())

    def write(self, namespace: str, request: CopyRequest, *, new: bool) -> None:
        self.versions += 1
        self.store[namespace, "x"] = CopyRecord(
            uid=namespace,
            resource_version=str(self.versions),
            owner="home/r",
            digest=request.desired.digest,
            shape=ACCEPTED,
        )
        self.holds[namespace] = self.source
        if new:
            self.beyond.add(namespace)

    def work(self) -> None:
        """Let the operator work until it has nothing more to do now."""
        for _ in range(30):
            if not self.operator.turn():
                return
        raise AssertionError("it never ends")


class Operator:
    """One process: what it holds in memory is lost with it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.context = Context(world)
        self.state = RuleState(RuleKey("home", "r"))
        rule = Rule.from_body({**world.body, "status": world.status.to_dict()})
        assert isinstance(rule.spec, RuleSpec)
        self.rule = rule
        targets = world.namespaces.targets(rule.spec.targets)
        asyncio.run(targets.settle(TimeSlice()))
        self.compiled = CompiledRule(rule, rule.spec, resource=KIND, targets=targets, sealer=SEALER)
        self.compiled.active = True
        self.state.compiled = self.compiled
        self.rollouts = Rollouts(self.context)  # type: ignore[arg-type]
        self.rollout = self.rollouts.begin(self.compiled, None)
        self.compiled.barrier = self.rollout
        self.source_changed()

    def source_changed(self) -> None:
        """As source_watches.py does it."""
        self.compiled.close_barrier()
        body = {
            "metadata": {"name": "x", "namespace": "home", "resourceVersion": "1"},
            "data": {"a": str(self.world.source)},
        }
        source = SourceReader("v1", "ConfigMap")(body)
        self.context.index.add(SourceBinding(self.compiled, source))

    async def write(self) -> None:
        assert self.rollout.state is not None
        self.rule.status = self.world.status = RuleStatus(
            rollout=replace(self.rollout.state, steps=9)
        )

    def turn(self) -> bool:
        """One reconcile of the rule, and of each copy; whether anything was done."""
        before = (self.rollout.state, self.world.versions)
        asyncio.run(self._advance())
        for namespace in list(self.world.namespaces):
            self.copy(namespace)
        if self.rollout.state is not None:
            self.world.status = RuleStatus(rollout=replace(self.rollout.state, steps=9))
        return (self.rollout.state, self.world.versions) != before

    async def _advance(self) -> None:
        await self.compiled.targets.settle(TimeSlice())
        await self.rollouts.advance(self.state, self.write)

    def copy(self, namespace: Namespace) -> None:
        """What copies/targets/reconciler.py does about one copy."""
        world, name = self.world, namespace.name
        if not self.compiled.targets.had(name):
            return
        (request,) = self.context.index.requests(KIND, namespace, "x")
        existing = world.store.get((name, "x"))
        plan = plan_copy(TargetState(requests=[request], existing=existing, open=True))
        key = CopyKey(KIND, name, "x")
        if plan.act not in (Action.CREATE, Action.REPLACE):
            return
        if name in world.failing:
            self.context.problems[key] = "refused"
            return
        self.context.problems.pop(key, None)
        allowed = self.allowed()
        if plan.why is Cause.CHANGED:
            rolled = {one for one, held in world.holds.items() if held == world.source}
            rolled -= world.beyond
            assert len(rolled) < allowed, (name, sorted(rolled), self.rollout.state)
        world.write(name, request, new=plan.act is Action.CREATE)

    def allowed(self) -> int:
        """How many copies may have the new content by the recorded step."""
        known, state = self.world.status.rollout, self.rollout.state
        assert self.compiled.spec.rollout is not None
        assert state is not None
        targets = len(self.compiled.targets)
        if not state.running:
            return targets + 1  # it has ended, or this is a change back
        assert known is not None
        assert known.ticket == state.ticket
        return self.compiled.spec.rollout.totals(targets)[known.step - 1]


EVENTS = st.sampled_from(
    [
        *("change", "change back", "wait", "wait", "wait", "wait a little", "restart"),
        *("namespace", "an early namespace", "drop a namespace", "delete a copy", "edit a copy"),
        *("fail", "heal"),
    ]
)


def happen(world: World, event: str, number: int) -> None:
    """One event."""
    names = sorted(one.name for one in world.namespaces)
    name = names[number % len(names)] if names else ""
    operator = world.operator
    if event in ("change", "change back"):
        world.source = world.source + 1 if event == "change" else max(world.source - 1, 0)
        world.beyond = {one for one, held in world.holds.items() if held == world.source}
        operator.source_changed()
    elif event in ("wait", "wait a little"):
        world.now += timedelta(seconds=PAUSE + 1 if event == "wait" else 60)
    elif event == "restart":
        world.operator = Operator(world)
    elif event in ("namespace", "an early namespace"):
        name = f"{'n' if event == 'namespace' else 'a'}{number}"
        if world.namespaces.get(name) is None:
            world.namespaces.put(Namespace(name, created=format_time(world.now)))
    elif event == "drop a namespace" and name:
        world.namespaces.drop(name)
        forget(world, name)
    elif event == "delete a copy" and name:
        forget(world, name)
    elif event == "edit a copy" and (record := world.store.get((name, "x"))):
        record.shape = OTHER
    elif event == "fail" and name:
        world.failing.add(name)
    elif event == "heal":
        world.failing.clear()


def forget(world: World, namespace: str) -> None:
    world.store.pop((namespace, "x"), None)
    world.holds.pop(namespace, None)
    world.beyond.discard(namespace)


STEPS = st.sampled_from([["1", "50%", "100%"], ["100%"], ["1", "2", "3", "100%"], ["30%", "100%"]])


@given(STEPS, st.integers(1, 9), st.lists(st.tuples(EVENTS, st.integers(0, 20)), max_size=25))
def test_new_content_exceeds_the_steps_only_in_new_namespaces_and_healed_copies(
    steps: list[str], targets: int, events: list[tuple[str, int]]
) -> None:
    world = World(steps, targets)
    for event, number in events:
        happen(world, event, number)
        world.work()
    world.failing.clear()
    for _ in range(6):
        world.now += timedelta(seconds=PAUSE + 1)
        world.work()
    assert set(world.holds.values()) <= {world.source}
    assert len(world.holds) == len(world.namespaces)
    known = world.status.rollout
    assert known is not None
    assert not known.running


# --- Which workloads use a copy, whether they are healthy, and how they are restarted -------------


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
CONTENT = "a" * 32


def env_of(**fields: Any) -> list[dict[str, Any]]:
    """Containers, of which the second one has these fields."""
    return [{"name": "a"}, {"name": "b", **fields}]


def one_key(kind: str) -> list[dict[str, Any]]:
    return [{"name": "A", "valueFrom": {f"{kind}KeyRef": {"name": "x", "key": "k"}}}]


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        ({"volumes": [{"emptyDir": {}}, {"secret": {"secretName": "x"}}]}, "Secret"),
        ({"volumes": [{"configMap": {"name": "x"}}]}, "ConfigMap"),
        ({"volumes": [{"projected": {"sources": [{}, {"secret": {"name": "x"}}]}}]}, "Secret"),
        ({"volumes": [{"projected": {"sources": [{"configMap": {"name": "x"}}]}}]}, "ConfigMap"),
        ({"containers": env_of(env=one_key("secret"))}, "Secret"),
        ({"containers": env_of(envFrom=[{"configMapRef": {"name": "x"}}])}, "ConfigMap"),
        ({"initContainers": env_of(env=one_key("configMap"))}, "ConfigMap"),
        ({"initContainers": env_of(envFrom=[{"secretRef": {"name": "x"}}])}, "Secret"),
        ({"imagePullSecrets": [{"name": "x"}]}, "Secret"),
        ({"serviceAccountName": "x"}, "ServiceAccount"),
    ],
)
def test_what_a_pod_uses(spec: dict[str, Any], kind: str) -> None:
    kinds = ("Secret", "ConfigMap", "ServiceAccount")
    found = {one: set(names_used(one, {"spec": spec})) - {""} for one in kinds}
    assert found == {one: {"x"} if one == kind else set() for one in kinds}


def workload(ready: int = 1, **annotations: str) -> dict[str, Any]:
    counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    marks = {f"copyrator.flant.com/{k.replace('_', '-')}": v for k, v in annotations.items()}
    return {
        "metadata": {
            "name": "web",
            "namespace": "team-a",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": marks,
        },
        "spec": {"replicas": 1, "template": {"spec": {"imagePullSecrets": [{"name": "x"}]}}},
        "status": {
            **dict.fromkeys(counts, ready),
            "conditions": [{"type": "Available", "status": "True"}],
        },
    }


def read(body: dict[str, Any], kind: str = "Deployment") -> ConsumerState | None:
    return read_consumer(kind, body, ("Secret", frozenset({"x"})))


@pytest.mark.parametrize(
    ("message", "lacks"),
    [
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 200 + "…"),
        ("a\nb\x1b[31m", "a b [31m"),
        ("", "Failed"),
    ],
)
def test_anothers_message_is_one_short_line(message: str, lacks: str) -> None:
    body = workload()
    stalled = {"type": "Stalled", "status": "True", "message": message}
    body["status"]["conditions"] = [stalled]
    found = read(body)
    assert found is not None
    assert (found.healthy, found.lacks, found.matters) == (False, lacks, True)


def test_one_that_is_being_deleted_counts_as_gone() -> None:
    body = workload(ready=0, restart="true")
    body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = read(body)
    assert found is not None
    assert (found.healthy, found.may_restart) == (True, False)


@pytest.mark.parametrize(
    ("annotations", "paused", "restarts", "back"),
    [
        ({}, False, False, False),
        ({"restart": "true"}, False, True, False),
        ({"restart": "yes"}, False, False, False),
        ({"restart": "true"}, True, False, False),
        ({"restart": "true", "restarted_for": f"ops/b=b,ops/a={CONTENT}"}, False, False, False),
        ({"restart": "true", "restarted_for": f"ops/b={CONTENT},x"}, False, True, False),
        # A change back restarts those that had the other content.
        ({"restart": "true", "restarted_for": "ops/a=b"}, False, True, True),
    ],
)
def test_who_is_restarted(
    annotations: dict[str, str], paused: bool, restarts: bool, back: bool
) -> None:
    body = workload(**annotations)
    body["spec"]["paused"] = paused
    one = read(body)
    assert one is not None
    assert to_restart(RestartCause("ops/a", CONTENT), [one]) == ([one] if restarts else [])
    assert bool(to_restart(RestartCause("ops/a", CONTENT, back=True), [one])) is back


def test_a_restart_is_kubectls_with_a_mark_of_bounded_length() -> None:
    earlier = {"ops/a": "old", **{f"ops/{number}": "x" for number in range(50)}}
    one = ConsumerState(Consumer("a", "Deployment", "b"), restarted_for=earlier)
    patch = restart_patch(one, RestartCause("ops/a", CONTENT), NOON)
    assert patch["spec"] == {
        "template": {
            "metadata": {
                "annotations": {"kubectl.kubernetes.io/restartedAt": "2026-01-01T12:00:00Z"}
            }
        }
    }
    marks = patch["metadata"]["annotations"][names.ANN_RESTARTED_FOR].split(",")
    others = [f"ops/{number}=x" for number in range(50)]
    assert marks == [*others[1 - RESTARTED_FOR :], f"ops/a={CONTENT}"]
    again = ConsumerState(one.consumer, restarted_for={"ops/a": "old", "ops/b": "ops/a"})
    patch = restart_patch(again, RestartCause("ops/a", CONTENT), NOON)
    marks = patch["metadata"]["annotations"][names.ANN_RESTARTED_FOR]
    assert marks == f"ops/b=ops/a,ops/a={CONTENT}"


def seen(name: str, *, healthy: bool = False, created: datetime | None = None) -> ConsumerState:
    return ConsumerState(Consumer("team-a", "Deployment", name), healthy, created=created)


def test_only_consumers_that_were_healthy_before_stop_a_rollout() -> None:
    state = RolloutState(
        CONTENT, step=1, started_at=NOON, unhealthy_before=("team-a/Deployment/ill",)
    )
    late = NOON + timedelta(seconds=1)
    assert (
        newly_unhealthy(state, [seen("well", healthy=True), seen("ill"), seen("new", created=late)])
        is None
    )
    found = newly_unhealthy(state, [seen("z"), seen("b", created=NOON), seen("ill")])
    assert found is not None
    assert found.consumer.name == "b"


def test_the_status_holds_a_limited_number() -> None:
    many = [seen(f"web-{number:03}") for number in range(300)]
    found = unhealthy([*reversed(many), seen("a", healthy=True)])
    assert len(found) == UNHEALTHY_BEFORE
    assert found[0] == "team-a/Deployment/web-000"


@given(JSON)
def test_no_manifest_breaks_it(value: Any) -> None:
    template = {"spec": value if isinstance(value, dict) else {"volumes": value}}
    body = {"metadata": {"annotations": value}, "spec": {"template": template}, "status": value}
    for kind in ("Secret", "ConfigMap", "ServiceAccount"):
        list(names_used(kind, template))
        read_consumer("Deployment", body, (kind, frozenset({"", "x"})))
        read_consumer("StatefulSet", {"spec": value}, (kind, frozenset({"x"})))
