"""A feature from outside, built by docs/architecture.md, that uses every extension point."""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from prometheus_client import generate_latest
from tests.component.bundles.fake_cluster import TEAM, WAITING, BundleCluster, path_of, succeed
from tests.component.bundles.fixture_types import TIMING, Run
from tests.component.bundles.telling import Told
from tests.component.bundles.test_deletion import delete
from tests.component.bundles.waiting import eventually, given_up
from tests.component.kube.fake_api import copied
from tests.component.oci.fake_registry import FakeRegistry
from tests.toy_feature.greeting import feature, fields
from tests.toy_feature.greeting.feature import GreetingFeature

from copyrator.api.names import ANN_FREEZE
from copyrator.api.text import detail_lines
from copyrator.bundles import features
from copyrator.bundles.engine.feature import Feature
from copyrator.bundles.fields import (
    bundle_conditions,
    bundle_reasons,
    spec_parts,
    status_parts,
)
from copyrator.cli.core.installation import Installation
from copyrator.cli.view.bundle import BundleView, describe_bundle
from copyrator.kube.resources import CONFIGMAPS
from copyrator.kube.watch.reflector import WatchSpec
from copyrator.runtime.flags import parameters
from copyrator.settings.config import Settings

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "tests" / "toy_feature" / "greeting"
OTHERS = [{"type": "Synced", "status": "True"}]
POINTS = [
    name
    for name, what in vars(Feature).items()
    if not name.startswith("_") and isinstance(what, FunctionType | property)
]


def recording(calls: list[str]) -> type[Feature]:
    """The feature, which adds the name of each point that the engine calls."""
    depth = 0

    def recorded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **more: Any) -> Any:
            nonlocal depth
            if not depth:  # else the feature calls it itself
                calls.append(name)
            depth += 1
            try:
                return function(*args, **more)
            finally:
                depth -= 1

        return call

    def point(name: str) -> Any:
        found = vars(GreetingFeature)[name]
        if isinstance(found, property):
            assert found.fget is not None
            return property(recorded(name, found.fget))
        return recorded(name, found)

    used = (name for name in POINTS if name in vars(GreetingFeature))
    return type("Recorded", (GreetingFeature,), {name: point(name) for name in used})


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Has the feature in the list; the names of the points that the engine calls."""
    made: list[str] = []
    for path in FOLDER.glob("*.py"):
        name = "" if path.stem == "__init__" else f".{path.stem}"
        found = import_module(f"tests.toy_feature.greeting{name}")
        monkeypatch.setitem(sys.modules, f"{features.__name__}.greeting{name}", found)
    monkeypatch.setattr(features, "FEATURES", ("greeting", *features.FEATURES))
    monkeypatch.setattr(feature, "FEATURE", recording(made))
    _forget_list()
    yield made
    _forget_list()


def _forget_list() -> None:
    """What is read of the list of features once."""
    for found in (spec_parts, status_parts, bundle_conditions, bundle_reasons):
        found.cache_clear()


def test_it_uses_every_extension_point() -> None:
    attributes = [name for name in Feature.__annotations__ if name != "context"]
    used = {*vars(GreetingFeature), *GreetingFeature.__annotations__}
    assert {*attributes, *POINTS} - used == {"keys", "reaches", "uses"}  # in place of `spec`


@dataclass
class House:
    """A Bundle that greets, and its operator."""

    cluster: BundleCluster
    registry: FakeRegistry
    run: Run
    told: Told = field(default_factory=Told)
    settings: dict[str, Any] = field(default_factory=dict)
    operator: Any = None

    async def open(self, **book: str) -> None:
        """Start an operator that has listed the ConfigMap before it sees the Bundle."""
        self.cluster.put_object("configmaps", "book", data=book)
        watch = WatchSpec(
            resource=CONFIGMAPS, namespace=TEAM, name="book", decode=feature.read_book
        )

        def prepare(operator: Any) -> None:
            self.listed = operator.pool.acquire(watch, lambda *_: None)

        timing = replace(TIMING, poll_report=600.0)
        self.operator = await self.run(
            recorder=self.told, timing=timing, prepare=prepare, **self.settings
        )
        await eventually(lambda: self.listed.synced)

    def create(self, name: str = "shop", **spec: Any) -> None:
        """A Bundle with a status already, as an earlier operator has left it."""
        source = {"registry": self.registry.host, "repo": "app", "insecure": True}
        greeting = {"configMap": "book", **spec.pop("greeting", {})}
        self.cluster.put_object(
            "bundles",
            name,
            spec={**source, "version": "1.0.0", "greeting": greeting, **spec},
            metadata={"annotations": {fields.ANN_GREET: "one"}},
            status={"greeting": {"asked": "one", "answered": "one"}, "conditions": OTHERS},
        )

    def print(self, name: str, code: int) -> None:
        """A Job of the feature's own that has ended."""
        job = copied(self.cluster.jobs()[0])
        job["metadata"] |= {"name": name, "uid": name}
        job["metadata"]["labels"]["operator.werf.dev/job"] = "plan"
        self.cluster.write(path_of("jobs", name), job)
        self.cluster.end_job(name, code)

    def annotate(self, **annotations: str | None) -> None:
        found = {f"operator.werf.dev/{name}": value for name, value in annotations.items()}
        self.cluster.change("bundles", "shop", metadata={"annotations": found})

    async def close(self) -> None:
        self.listed.release()
        await self.operator.stop()

    def condition(self) -> tuple[str, ...]:
        listed = self.cluster.status().get("conditions", ())
        found: dict[str, str] = next((one for one in listed if one["type"] == "Greeted"), {})
        return tuple(found.get(one, "") for one in ("status", "reason", "message"))

    def described(self) -> list[str]:
        """What `copyrator describe` prints of the Bundle."""
        body = self.cluster.look("bundles", "shop")
        installation = Installation(settings=Settings(), namespace="copyrator")
        view = BundleView(body or {}, datetime.now(UTC), installation)
        return detail_lines(describe_bundle(view))

    def greeting(self) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.status().get("greeting") or {}
        return found

    def cards(self) -> list[str]:
        """What the Secrets of Jobs say."""
        found = [
            body["data"]["greeting"]
            for path, body in self.cluster.objects.items()
            if "/secrets/" in path and path.endswith("-greeting")
        ]
        return [base64.b64decode(one).decode() for one in found]


@pytest.fixture
def house(cluster: BundleCluster, registry: FakeRegistry, run: Run, calls: list[str]) -> House:
    assert not calls
    return House(cluster, registry, run)


async def test_a_release_greets_and_says_farewell(house: House) -> None:
    cluster = house.cluster
    await house.open(unwelcome="0.9.0")
    assert house.operator.metrics.registry.get_sample_value("copyrator_greeting") == 0
    house.create()
    await eventually(lambda: house.condition() == ("False", "Speechless", "nobody is greeted"))
    assert cluster.status()["gates"][-1]["message"] == "ConfigMap book has no `words`"
    assert not cluster.runs

    cluster.change("configmaps", "book", data={"words": "hello"})
    await eventually(lambda: house.condition() == ("True", "Greeted", "hello"))
    kinds = [one["type"] for one in cluster.status()["conditions"]]
    assert kinds == ["Ready", "Reconciling", "Stalled", "UpdatePending", "Greeted", "Synced"]
    digest = cluster.status()["deployed"]["digest"]
    known = {"asked": "one", "answered": "one", "digest": digest, "welcome": True, "heard": True}
    assert house.greeting() == known | {"judged": house.greeting()["judged"]}
    assert house.told.said["Speechless"] == ["write `words`, please"]
    await eventually(lambda: house.told.said["Greeted"] == ["hello"])
    assert f"Greets:        {digest[:19]}" in house.described()
    house.operator.controller.publish()
    metrics = generate_latest(house.operator.metrics.registry).decode()
    assert "copyrator_greeting 1.0" in metrics

    delete(cluster)
    await eventually(lambda: cluster.look("bundles", "shop") is None)
    assert house.told.said["Farewell"] == ["shop leaves"]
    await eventually(lambda: not len(house.operator.controller._context.memories))


async def test_a_setting_names_the_words_for_those_who_have_none(house: House) -> None:
    flags = [option.opts for option in parameters()]
    assert flags.index(["--greeting-house"]) == len(flags) - 2, "before the one of an original"
    house.settings = {"namespace": TEAM, "greeting_house": "parlour"}
    house.cluster.put_object("configmaps", "parlour", data={"words": "welcome"})
    await house.open()
    house.create()
    await eventually(lambda: house.condition() == ("True", "Greeted", "welcome"))


async def test_the_annotation_has_the_same_version_greet_once_more(house: House) -> None:
    cluster = house.cluster
    await house.open(words="hello")
    house.create()
    await eventually(lambda: cluster.reason() == "Deployed")
    house.print("shop-greeting", 0)
    house.annotate(greet="two")
    await eventually(lambda: len(cluster.runs) == 2 and cluster.reason() == "Deployed")
    assert house.greeting()["answered"] == "two"
    await eventually(lambda: house.greeting().get("printed") == 1)
    await eventually(lambda: len(house.cards()) <= 1)

    house.annotate(greet=None)
    await eventually(lambda: "asked" not in house.greeting())
    await eventually(lambda: "answered" not in house.greeting())
    assert len(cluster.runs) == 2


async def test_a_job_of_its_own_that_failed_is_deleted(house: House) -> None:
    await house.open(words="hello")
    house.create()
    await eventually(lambda: house.cluster.reason() == "Deployed")
    house.print("lost-greeting", 1)
    house.annotate(requestedAt="now")
    await eventually(lambda: house.cluster.look("jobs", "lost-greeting") is None)


async def test_what_is_unwelcome_is_refused_until_the_config_map_changes(house: House) -> None:
    await house.open(words="hello", unwelcome="1.0.0")
    house.create()
    await eventually(lambda: house.cluster.reason() == "Unwelcome", house.cluster.message())
    house.cluster.change("configmaps", "book", data={"unwelcome": ""})
    await eventually(lambda: house.cluster.reason() == "Deployed", house.cluster.message())


async def test_a_job_has_the_words_as_they_are_until_its_pod_starts(house: House) -> None:
    cluster = house.cluster
    cluster.ends, cluster.pods = None, WAITING
    await house.open(words="hello")
    house.create()
    await eventually(lambda: cluster.runs)
    assert f"{cluster.runs[0]}-greeting" in str(cluster.jobs()[0])
    assert house.cards() == ["greeting: hello\n"]

    cluster.change("configmaps", "book", data={"words": "good day"})
    await eventually(lambda: house.cards() == ["greeting: good day\n"])
    cluster.change("configmaps", "book", data={"closed": ""})
    await given_up(cluster, house.operator, cluster.runs[0])
    assert house.greeting()["closed"]


async def test_a_bundle_greets_after_the_one_that_it_names(house: House) -> None:
    cluster = house.cluster
    await house.open(words="hello")
    house.create("second", greeting={"after": [{"name": "shop"}]})
    await eventually(lambda: cluster.reason("second") == "Speechless")
    house.create()
    await eventually(lambda: cluster.reason("second") == "Deployed", cluster.message("second"))


async def test_without_its_config_map_nothing_is_deployed(house: House) -> None:
    await house.open()
    house.create(greeting={"configMap": "lost"})
    text = "ConfigMap team/lost of spec.greeting doesn't exist; create it"
    await eventually(lambda: house.cluster.message() == text, house.cluster.message())
    house.cluster.put_object("configmaps", "lost", data={"words": "hello"})
    await eventually(lambda: house.cluster.reason() == "Deployed", house.cluster.message())


@pytest.mark.needs("freeze")
async def test_each_point_is_called_in_the_documented_order(house: House, calls: list[str]) -> None:
    cluster = house.cluster
    cluster.ends = None
    cluster.put_object("configmaps", "values", data={"a.yaml": "a: 1"})
    await house.open(words="hello")
    assert house.operator.controller.checks["greeting"]() == "ConfigMap greeting is silent"
    house.operator.controller.publish()
    # It was there before: that the first write is the one of its deploy keeps the order simple.
    house.create(values="values", retry={"backoff": "1s"})
    await eventually(lambda: "hinders" in calls)
    name = cluster.runs[0]
    cluster.logs[f"{name}-pod"] = "Error: it said hello\n"
    cluster.end_job(name, 1)
    await eventually(lambda: len(cluster.runs) == 2)
    cluster.ends = succeed
    cluster.end_job(cluster.runs[1])
    await eventually(lambda: cluster.reason() == "Deployed")
    cluster.change("configmaps", "book", data={"unwelcome": ""})
    await eventually(lambda: "precede" in calls, "a reconcile that begins nothing")
    house.print("shop-greeting", 0)
    await eventually(lambda: "keeps" in calls)
    cluster.change("configmaps", "values", data={"a.yaml": "a: 2"})
    await eventually(lambda: len(cluster.runs) == 3 and cluster.reason() == "Deployed")
    house.annotate(**{"disable-autoupdate": ""})
    await eventually(lambda: "welcome" not in house.greeting())
    house.annotate(**{"disable-autoupdate": None})
    await eventually(lambda: cluster.reason() == "Deployed", "so that nothing has to be polled")
    cluster.namespace(TEAM, annotations={ANN_FREEZE: "a holiday"})
    await eventually(lambda: "awaits_moment" in calls)
    await house.close()
    await house.open(words="hello")
    await eventually(lambda: "is_judged" in calls)
    delete(cluster)
    await eventually(lambda: cluster.look("bundles", "shop") is None)
    await eventually(lambda: "leave" in calls)
    assert list(dict.fromkeys(calls)) == documented()


def documented() -> list[str]:
    """The points in the order of the page's tables."""
    page = (ROOT / "docs" / "architecture.md").read_text().partition("### Extension points")[2]
    rows = re.findall(r"^\| ((?:`[a-z_]+`(?:, )?)+) \|", page, re.MULTILINE)
    found = [name for row in rows for name in re.findall(r"`([a-z_]+)`", row)]
    return [name for name in found if name != "content"]  # it is asked of gated Bundles
