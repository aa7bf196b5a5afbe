"""No sequence of events gives changed content to more copies than the steps allow.

A simulation changes sources, creates, deletes and edits namespaces and copies, lets writes fail,
lets time pass, and restarts the operator, in any order. It runs the operator's own decisions
(copies/rollout/progress.py, copies/targets/planning.py) over its caches, and keeps its own
account of what each copy holds.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from tests.replacing import replace
from tests.targets import EVERYWHERE

from copyrator.api.keys import CopyKey, RuleKey
from copyrator.api.rule_spec import RuleSpec
from copyrator.api.rule_status import NO_STATUS, RuleStatus
from copyrator.api.text import format_time
from copyrator.copies.rollout.progress import Rollouts
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
