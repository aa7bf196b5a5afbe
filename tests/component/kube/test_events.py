"""Events are few and bounded, and nobody ever waits for them or stumbles over them."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.clock import Clock
from tests.component.kube.fake_api import FakeApi, error, hang, until

from copyrator.api.reasons.rules import RuleReason
from copyrator.kube import events as events_module
from copyrator.kube.client.client import KubeClient
from copyrator.kube.events import NO_ANNOTATIONS, EventRecorder, ObjectRef
from copyrator.metrics import Metrics

RULE = ObjectRef("flant.com/v1", "CopyratorRule", "ns", "main", "uid-1")


class Kit:
    """A recorder with a clock of its own, and what it wrote."""

    def __init__(self, client: KubeClient, api: FakeApi) -> None:
        self.api = api
        self.clock = Clock()
        self.metrics = Metrics()
        self.recorder = EventRecorder(
            client,
            clock=self.clock,
            now=lambda: datetime.fromtimestamp(self.clock.now, UTC),
            metrics=self.metrics,
            instance="pod-1",
            serves=lambda namespace: namespace != "others",
        )
        self.task = asyncio.create_task(self.recorder.run())

    def record(
        self,
        message: str = "copied",
        ref: ObjectRef = RULE,
        annotations: Mapping[str, str] = NO_ANNOTATIONS,
    ) -> None:
        self.recorder.record(ref, RuleReason.SYNCED, message, annotations)

    async def written(self) -> list[dict[str, Any]]:
        await self.recorder.flush(60)
        return [body for path, body in self.api.objects.items() if "/events/" in path]

    def dropped(self, cause: str) -> float:
        labels = {"cause": cause}
        return self.metrics.registry.get_sample_value("copyrator_events_dropped_total", labels) or 0


@pytest.fixture
async def kit(client: KubeClient, api: FakeApi) -> AsyncIterator[Kit]:
    kit = Kit(client, api)
    yield kit
    kit.task.cancel()
    await asyncio.gather(kit.task, return_exceptions=True)


async def test_another_annotation_is_another_event(kit: Kit) -> None:
    for value in ("a", "b", "a"):
        kit.record(annotations={"rules": value})
    events = await kit.written()
    assert [event["metadata"]["annotations"] for event in events] == [
        {"rules": "a"},
        {"rules": "b"},
    ]
    assert len({event["metadata"]["name"] for event in events}) == 2


async def test_an_event_says_what_happened_to_what(kit: Kit) -> None:
    kit.recorder.record(RULE, RuleReason.PARTIAL_FAILURE, "3 copies failed.")
    (event,) = await kit.written()
    assert event["involvedObject"] == {
        "apiVersion": "flant.com/v1",
        "kind": "CopyratorRule",
        "namespace": "ns",
        "name": "main",
        "uid": "uid-1",
    }
    assert event["metadata"]["namespace"] == "ns"
    assert event["metadata"]["name"].startswith("main.")
    assert (event["type"], event["reason"]) == ("Warning", "PartialFailure")
    assert event["message"] == "3 copies failed."
    assert "annotations" not in event["metadata"]
    assert event["count"] == 1
    assert event["source"] == {"component": "copyrator"}
    assert event["reportingInstance"] == "pod-1"
    assert event["firstTimestamp"] == event["lastTimestamp"] == "1970-01-01T00:16:40Z"


async def test_a_message_is_truncated_at_a_word(kit: Kit) -> None:
    kit.record(f"{'word ' * 204}one-longer-word")
    kit.record("x" * 1025)
    kit.record("y" * 1024)
    assert sorted(body["message"] for body in await kit.written()) == [
        f"{'word ' * 203}word…",
        f"{'x' * 1023}…",
        "y" * 1024,
    ]


async def test_the_same_news_raises_a_count_at_most_once_a_minute(kit: Kit) -> None:
    for _ in range(10):
        kit.record()
        await kit.recorder.flush(60)
    assert (kit.api.count("create"), kit.api.count("patch")) == (1, 0)
    kit.clock.now += 61
    kit.record()
    (event,) = await kit.written()
    assert event["count"] == 11
    assert event["lastTimestamp"] == "1970-01-01T00:17:41Z"
    assert (kit.api.count("create"), kit.api.count("patch")) == (1, 1)


async def test_after_a_restart_the_same_news_raises_the_count_that_is_there(
    kit: Kit, client: KubeClient, api: FakeApi
) -> None:
    kit.record()
    await kit.written()
    again = Kit(client, api)
    again.record()
    (event,) = await again.written()
    assert event["count"] == 2
    again.task.cancel()


async def test_an_event_that_the_server_has_forgotten_is_written_anew(kit: Kit) -> None:
    kit.record()
    await kit.written()
    kit.api.objects.clear()
    kit.clock.now += 61
    kit.record()
    (event,) = await kit.written()
    assert event["count"] == 2


async def test_one_object_that_talks_too_much_is_cut_short_alone(kit: Kit) -> None:
    for number in range(100):
        kit.record(f"news {number}")
        await kit.recorder.flush(60)
    assert len(await kit.written()) == 25
    assert kit.dropped("rate_limit") == 75
    other = ObjectRef("flant.com/v1", "CopyratorRule", "ns", "other", "uid-2")
    kit.record(ref=other)
    assert len(await kit.written()) == 26
    kit.clock.now += 12
    kit.record("later")
    assert len(await kit.written()) == 27


async def test_nothing_is_written_in_a_namespace_that_the_operator_doesnt_serve(kit: Kit) -> None:
    kit.record(ref=ObjectRef("v1", "ConfigMap", "others", "app", "uid-2"))
    kit.record()
    (event,) = await kit.written()
    assert event["metadata"]["namespace"] == "ns"


async def test_nothing_more_is_tried_in_a_terminating_namespace(kit: Kit) -> None:
    causes = [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]
    kit.api.always("create", error(403, "Forbidden", details={"causes": causes}))
    for number in range(5):
        kit.record(f"news {number}")
        await kit.recorder.flush(60)
    assert kit.api.count("create") == 1
    assert kit.dropped("namespace_terminating") == 5


@pytest.mark.parametrize("answer", [error(500), error(403, "Forbidden")])
async def test_a_refusal_is_counted_and_the_next_event_is_written(kit: Kit, answer: Any) -> None:
    kit.api.script("create", answer)
    kit.record("lost")
    kit.record("written")
    (event,) = await kit.written()
    assert event["message"] == "written"
    assert (
        sum(
            sample.value
            for m in kit.metrics.events_dropped.collect()
            for sample in m.samples
            if sample.name.endswith("_total")
        )
        == 1
    )


async def test_a_server_that_hangs_makes_nobody_wait(kit: Kit) -> None:
    kit.api.always("create", hang())
    for number in range(1000):
        ref = ObjectRef("v1", "ConfigMap", "ns", f"c{number}", f"uid-{number}")
        kit.record(ref=ref)
    await until(lambda: kit.api.count("create") == 1, "the first is tried")
    assert kit.dropped("queue_full") >= 1000 - events_module.QUEUE - 1


async def test_a_flood_of_one_namespace_takes_nobody_elses_event_and_delays_it_by_one(
    kit: Kit,
) -> None:
    floods = [
        ObjectRef("flant.com/v1", "CopyratorRule", "flood", f"r{number}", f"uid-{number}")
        for number in range(events_module.QUEUE)
    ]
    for number in range(4 * events_module.QUEUE):
        kit.record(f"noise {number}", floods[number % len(floods)])
    kit.record("news")
    for number in range(events_module.QUEUE):
        kit.record(f"more noise {number}", floods[number])
    written = await kit.written()
    order = [event["metadata"]["namespace"] for event in written]
    assert order.index("ns") <= 2  # one was taken before, and one is theirs
    assert order.count("flood") == events_module.QUEUE - 1
    dropped = (5 * events_module.QUEUE) - order.count("flood")
    assert kit.dropped("queue_full") == dropped


async def test_what_is_remembered_is_bounded(kit: Kit) -> None:
    for number in range(3000):
        kit.record(ref=ObjectRef("v1", "ConfigMap", "ns", f"c{number}", f"uid-{number}"))
    assert len(kit.recorder._events) <= events_module.MEMORY
    assert len(kit.recorder._buckets) <= events_module.MEMORY


@pytest.mark.parametrize("name", ["a", "n" * 253, "x.y." * 60, ("n" * 229) + ".tail"])
async def test_every_name_makes_a_valid_name_of_an_event(kit: Kit, name: str) -> None:
    kit.record(ref=ObjectRef("v1", "ConfigMap", "ns", name, "u"))
    (event,) = await kit.written()
    made = event["metadata"]["name"]
    assert len(made) <= 253
    assert ".." not in made


def test_a_reference_is_made_from_an_object_as_lists_give_it() -> None:
    body = {"metadata": {"namespace": "ns", "name": "main", "uid": "uid-1"}}
    assert ObjectRef.of(body, "flant.com/v1", "CopyratorRule") == RULE
    assert ObjectRef.of({"apiVersion": "flant.com/v1", "kind": "CopyratorRule", **body}) == RULE


async def test_an_event_that_was_given_up_is_written_when_it_is_said_again(kit: Kit) -> None:
    floods = [
        ObjectRef("flant.com/v1", "CopyratorRule", "flood", f"r{number}", f"uid-{number}")
        for number in range(events_module.QUEUE)
    ]
    for number, ref in enumerate(floods):
        kit.record(f"noise {number}", ref)
    kit.record("news")  # for this the last of the flood is given up
    before = {event["message"] for event in await kit.written()}
    last = f"noise {events_module.QUEUE - 1}"
    assert "news" in before
    assert last not in before
    kit.record(last, floods[-1])
    assert last in {event["message"] for event in await kit.written()}
