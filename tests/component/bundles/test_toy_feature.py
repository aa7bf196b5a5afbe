"""A feature from outside, built by docs/architecture.md, and when the engine calls each point."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from prometheus_client import generate_latest
from tests.component.bundles.fake_cluster import TEAM, BundleCluster, path_of, succeed
from tests.component.bundles.fixture_types import TIMING, Run
from tests.component.bundles.telling import Told
from tests.component.bundles.test_deletion import delete
from tests.component.bundles.waiting import eventually
from tests.component.kube.fake_api import copied
from tests.component.oci.fake_registry import FakeRegistry
from tests.toy_feature.greeting import feature
from tests.toy_feature.greeting.feature import GreetingFeature
from tests.toy_feature.greeting.fields import GreetingSpec
from tests.toy_feature.greeting.gates import GATES

from copyrator.api.names import ANN_FREEZE
from copyrator.api.text import detail_lines
from copyrator.bundles import features
from copyrator.bundles.engine.feature import Feature
from copyrator.bundles.engine.gate import PASSED, Gate, Gates, Occasion, uses
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
FORMER = {"digest": "sha256:former"}
POINTS = [
    name
    for name, what in vars(Feature).items()
    if not name.startswith("_") and isinstance(what, FunctionType | property)
]


def recording(calls: list[str]) -> type[Feature]:
    """The feature, which offers every point and adds the name of each that the engine calls."""
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
        found = vars(GreetingFeature).get(name) or vars(Feature)[name]
        if isinstance(found, property):
            assert found.fget is not None
            return property(recorded(name, found.fget))
        return recorded(name, found)

    return type("Recorded", (GreetingFeature,), {name: point(name) for name in POINTS})


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
            resource=CONFIGMAPS, namespace=TEAM, name="book", decode=feature.read_words
        )

        def prepare(operator: Any) -> None:
            self.listed = operator.pool.acquire(watch, lambda *_: None)

        timing = replace(TIMING, poll_report=600.0)
        self.operator = await self.run(
            recorder=self.told, timing=timing, prepare=prepare, **self.settings
        )
        await eventually(lambda: self.listed.synced)

    def create(self, status: Mapping[str, Any] | None = None, **spec: Any) -> None:
        """A Bundle with a status already, as an earlier operator has left it."""
        source = {"registry": self.registry.host, "repo": "app", "insecure": True}
        self.cluster.put_object(
            "bundles",
            "shop",
            spec={**source, "version": "1.0.0", "greeting": {"configMap": "book"}, **spec},
            status={"greeting": FORMER, "conditions": OTHERS, **(status or {})},
        )

    def end_own_job(self) -> None:
        """A Job of the feature's own that has ended."""
        job = copied(self.cluster.jobs()[0])
        job["metadata"] |= {"name": "shop-greeting", "uid": "greeting"}
        job["metadata"]["labels"]["operator.werf.dev/job"] = "plan"
        self.cluster.write(path_of("jobs", "shop-greeting"), job)
        self.cluster.end_job("shop-greeting")

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


@pytest.fixture
def house(cluster: BundleCluster, registry: FakeRegistry, run: Run, calls: list[str]) -> House:
    assert not calls
    return House(cluster, registry, run)


async def test_a_release_greets_and_says_farewell(house: House) -> None:
    cluster = house.cluster
    await house.open()
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
    assert cluster.status()["greeting"] == {"digest": digest}
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


@pytest.mark.needs("freeze")
async def test_each_point_is_called_in_the_documented_order(
    house: House, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("writes_secrets", "precedes_deletions"):
        monkeypatch.setattr(GreetingFeature, name, True)
    welcome = Gate("welcome", uses(GreetingSpec), frozenset(Occasion), lambda *_: PASSED)
    monkeypatch.setattr(GreetingFeature, "gates", Gates((welcome,), GATES.moment))
    cluster = house.cluster
    cluster.ends = None
    cluster.put_object("configmaps", "values", data={"a.yaml": "a: 1"})
    await house.open(words="hello")
    assert "greeting" not in house.operator.controller.checks
    house.operator.controller.publish()
    # It was there before: that the first write is the one of its deploy keeps the order simple.
    house.create({"deployed": FORMER}, values="values", retry={"backoff": "1s"})
    await eventually(lambda: "hinders" in calls)
    name = cluster.runs[0]
    cluster.logs[f"{name}-pod"] = "Error: it said hello\n"
    cluster.end_job(name, 1)
    await eventually(lambda: len(cluster.runs) == 2)
    cluster.ends = succeed
    cluster.end_job(cluster.runs[1])
    await eventually(lambda: cluster.reason() == "Deployed")
    cluster.change("configmaps", "book", data={"words": "good day"})
    await eventually(lambda: "precede" in calls, "a reconcile that begins nothing")
    house.end_own_job()
    await eventually(lambda: "keeps" in calls)
    cluster.change("configmaps", "values", data={"a.yaml": "a: 2"})
    await eventually(lambda: len(cluster.runs) == 3 and cluster.reason() == "Deployed")
    house.annotate(**{"disable-autoupdate": ""})
    await eventually(lambda: "undecided" in calls)
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
