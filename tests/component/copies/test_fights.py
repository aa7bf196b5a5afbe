"""Another client changes a copy back after each write, while ten minutes pass by a test's clock."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.clock import Clock
from tests.component.copies.conftest import (
    HOME,
    Operator,
    annotate_rule,
    by_name,
    counts,
    make_rule,
    ready_of,
    reason,
    serving,
    status_of,
)
from tests.component.copies.fake_cluster import FakeCluster, path_of
from tests.component.kube.fake_api import turns, until

from copyrator.api import names
from copyrator.api.text import format_time

TEAM = "team"
PLACE = path_of("configmaps", TEAM, "app")
DATA = {"key": "value"}
INJECTED = {"ca-bundle.crt": "PEM"}

Answer = Callable[["Contested", str, dict[str, Any]], None]


class Contested(FakeCluster):
    """A cluster with a controller that answers each write of a copy by the operator."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer: Answer | None = answer

    def write(self, path: str, body: dict[str, Any], manager: str = "test") -> dict[str, Any]:
        made = super().write(path, body, manager)
        if manager == names.FIELD_MANAGER and "/configmaps/app" in path and self.answer:
            asyncio.get_running_loop().call_soon(self._answered, path)
        return made

    def _answered(self, path: str) -> None:
        if self.answer and path in self.objects:
            self.answer(self, path, self.objects[path])

    def puts(self, place: str = PLACE) -> list[str]:
        """The verbs of the operator's writes of a copy, refused ones too."""
        folder = place.rpartition("/")[0]
        return [verb for verb, path in self.writes("configmaps") if path in (place, folder)]


def inject(cluster, path, body):
    """As OpenShift's injector of the trusted CA."""
    cluster.write(path, {**body, "data": {**body["data"], **INJECTED}}, "injector")


def normalise(cluster, path, body):
    cluster.write(path, {**body, "data": {"key": body["data"]["key"].upper()}}, "normaliser")


def remove(cluster, path, body):
    cluster.write(path, {**body, "data": {}}, "remover")


def relabel(cluster, path, body):
    labels = {**body["metadata"]["labels"], "team": "theirs"}
    cluster.write(path, {**body, "metadata": {**body["metadata"], "labels": labels}}, "labeller")


def unmark(cluster, path, body):
    labels = {**body["metadata"]["labels"]}
    del labels[names.LABEL_MANAGED_BY]
    cluster.write(path, {**body, "metadata": {**body["metadata"], "labels": labels}}, "unmarker")


def unseal(cluster, path, body):
    annotations = {**body["metadata"]["annotations"], names.ANN_HASH: "theirs"}
    metadata = {**body["metadata"], "annotations": annotations}
    cluster.write(path, {**body, "metadata": metadata}, "unsealer")


def replace(cluster, path, body):
    """As another tool that copies an object of its own there."""
    metadata = {"name": "app", "namespace": TEAM}
    cluster.write(path, {**body, "metadata": metadata, "data": {"their": "own"}}, "other-tool")


def delete(cluster, path, _body):
    cluster.drop(path)


CHANGES = {
    "a key is added": (inject, r"the field manager injector changes data.ca-bundle\.crt"),
    "a value is normalised": (normalise, "the field manager normaliser changes data.key"),
    "a key is removed": (remove, "removes data.key"),
    "a label is changed": (relabel, "the field manager labeller changes metadata.labels.team"),
    "the copy is deleted": (delete, "another client deletes it"),
    "the copy is replaced": (replace, "the field manager other-tool"),
    "our label is removed": (unmark, r"removes metadata.labels.app\.kubernetes\.io/managed-by"),
    "the seal is changed": (unseal, "unsealer changes metadata.annotations"),
}


class Time(Clock):
    """The clock of an operator and its queue; it passes only as a test says."""

    async def passes(self, operator: Operator, seconds: float) -> None:
        """Let time pass from one due key to the next, and everything be done at each."""
        end = self.now + seconds
        while True:
            await self.done(operator)
            due = min((when for when, _ in operator.queue._due.values()), default=end + 1)
            if due > end:
                break
            self.now = max(self.now, due)
            operator.queue.serve()
        self.now = end

    async def done(self, operator: Operator) -> None:
        """Wait until the operator and the other client have nothing to do at this time."""
        count, quiet = -1, 0
        while quiet < 6:
            await asyncio.sleep(0.005)
            await turns()
            seen = len(operator.cluster.seen)
            idle = not len(operator.queue) and not operator.queue.working
            quiet = quiet + 1 if idle and seen == count else 0
            count = seen


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
async def contested(request: pytest.FixtureRequest) -> AsyncIterator[Contested]:
    async with serving(Contested(getattr(request, "param", inject))) as cluster:
        assert isinstance(cluster, Contested)
        cluster.created = format_time(datetime.now(UTC))
        yield cluster


@pytest.fixture
async def running(contested: Contested, clock: Time) -> Operator:
    """An operator with a rule whose copy others change; nothing has passed since."""
    running = Operator(contested, monotonic=clock, queue_clock=clock)
    await running.start()
    return running


async def copied(cluster, running, clock, **more):
    cluster.namespace(TEAM)
    await running.sees(TEAM)
    cluster.object("configmaps", HOME, "app", data=DATA, metadata={"labels": {"team": "ours"}})
    make_rule(cluster, "rule", by_name("app", **more))
    await until(lambda: PLACE in cluster.objects or cluster.puts())
    await clock.passes(running, 0.5)


async def edit_in_vain(cluster):
    """Another client edits the copy once, and it is put right."""
    inject(cluster, PLACE, cluster.objects[PLACE])
    await until(lambda: cluster.objects[PLACE]["data"] == DATA)


def failure(cluster):
    (one,) = status_of(cluster)["failures"]
    return one


@pytest.mark.parametrize(
    ("contested", "said"), CHANGES.values(), ids=CHANGES, indirect=["contested"]
)
async def test_at_most_twelve_writes_in_ten_minutes_and_the_rule_says_who_changes_what(
    contested, running, clock, said
):
    await copied(contested, running, clock, onConflict="Overwrite")
    began = contested.puts()
    assert len(began) <= 7
    await clock.passes(running, 590)
    assert 8 <= len(contested.puts()) <= 12  # with the one that created it
    assert reason(contested) == "ConflictPersists"
    assert failure(contested)["reason"] == "ConflictPersists"
    assert said in failure(contested)["message"]
    message = ready_of(contested)["message"]
    assert f"{TEAM}/app" in message
    assert said in message
    assert counts(contested)["conflicts"] == 1
    begun = len(contested.puts())
    await clock.passes(running, 3_000)
    assert len(contested.puts()) - begun <= 11


async def test_a_copy_that_is_edited_once_is_put_right_at_once_by_one_write(
    contested, running, clock
):
    contested.answer = None
    await copied(contested, running, clock)
    contested.seen.clear()
    await edit_in_vain(contested)
    await clock.passes(running, 5)
    assert contested.puts() == ["update"]
    assert reason(contested) == "Synced"
    await edit_in_vain(contested)
    await clock.passes(running, 120)
    await edit_in_vain(contested)
    await clock.passes(running, 5)
    assert contested.puts() == ["update"] * 3
    assert reason(contested) == "Synced"


async def test_a_request_writes_at_once_and_begins_to_count_anew(contested, running, clock):
    await copied(contested, running, clock)
    await clock.passes(running, 300)
    contested.answer = None
    contested.seen.clear()
    make_rule(contested, "rule", by_name("app"))
    annotate_rule(contested, {names.ANN_RULE_REQUESTED_AT: "now"})
    await clock.passes(running, 3)
    assert contested.puts() == ["update"]
    assert reason(contested) == "Synced"
    assert status_of(contested)["lastHandledRequest"] == "now"


async def test_a_warning_is_recorded_for_the_rule_and_for_the_owners_of_the_namespace(
    contested, running, clock
):
    await copied(contested, running, clock)
    await clock.passes(running, 600)
    told = [
        (ref.kind, ref.namespace, message)
        for ref, kind, why, message in running.recorder.told
        if (kind, why) == ("Warning", "ConflictPersists")
    ]
    assert {one[:2] for one in told} == {("ConfigMap", TEAM), (names.RULE_KIND, HOME)}
    assert len(told) == 2
    assert all("injector" in message for *_, message in told)


async def test_fights_are_counted_in_a_metric_until_they_end(contested, running, clock):
    def value():
        return running.metrics.registry.get_sample_value("copyrator_copies_contested")

    await copied(contested, running, clock)
    await clock.passes(running, 60)  # with slow answers it takes more than a second
    await until(lambda: value() == 1, seconds=10)
    contested.answer = None
    await clock.passes(running, 700)
    await until(lambda: value() == 0, seconds=10)


async def test_a_client_that_writes_all_the_time_is_in_a_fight_too(contested, running, clock):
    """It writes before our request arrives, so that each of ours is refused."""
    contested.answer = None
    await copied(contested, running, clock)
    real = contested._update

    async def late(request):
        if request.path == PLACE:
            body = contested.objects[PLACE]
            contested.write(PLACE, {**body, "data": {"key": f"{time.monotonic()}"}}, "busy")
        return await real(request)

    contested._update = late
    contested.seen.clear()
    inject(contested, PLACE, contested.objects[PLACE])
    await clock.passes(running, 600)
    assert 6 <= len(contested.puts()) <= 12
    assert reason(contested) == "ConflictPersists"


async def test_an_edit_under_our_own_name_is_a_fight_too(contested, running, clock):
    def forge(cluster, path, body):
        cluster.write(path, {**body, "data": {"key": "forged"}}, names.FIELD_MANAGER)

    contested.answer = None
    await copied(contested, running, clock)
    contested.seen.clear()
    for _ in range(60):
        forge(contested, PLACE, contested.objects[PLACE])
        await clock.passes(running, 10)
    assert len(contested.puts()) <= 12
    assert reason(contested) == "ConflictPersists"
    assert "the field manager copyrator changes data" in failure(contested)["message"]
