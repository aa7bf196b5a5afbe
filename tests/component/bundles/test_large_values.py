"""Values and Secrets of any size: no long step, the memory of one source, no word of them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import tracemalloc
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.waiting import eventually
from tests.long import LONG, long_form
from tests.steps import STEP_SECONDS, measured_steps

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.keys import BundleKey
from copyrator.bundles.engine.bundle import Memories
from copyrator.bundles.engine.context import BundleTiming
from copyrator.bundles.engine.references import MissingReferenceError, ReferenceReader
from copyrator.bundles.fields import BundleDefaults, parse_bundle
from copyrator.bundles.jobs.redaction import BUNDLE_REDACTION_BYTES, Redactor, WithheldError
from copyrator.kube.errors import NotFound
from copyrator.workqueue.fairness import FairLimit
from copyrator.workqueue.isolated import Isolated

MB = 1024 * 1024
LONGEST = 3 * STEP_SECONDS
"""Seconds of a step that fail a test: room for a slow machine; before it was 17 s."""


def yaml_of(size: int, word: str = "word{:05}") -> bytes:
    """Values of so many bytes, all of them short."""
    lines = (f"key{number:05}: {word.format(number)}\n" for number in range(size))
    text = ""
    while len(text) < size:
        text += "".join(next(lines) for _ in range(1000))
    return text[:size].rpartition("\n")[0].encode()


@dataclass
class Api:
    """Objects by name, each made when it is read, as an API server's answer is."""

    makes: dict[str, Callable[[], dict[str, bytes]]] = field(default_factory=dict)
    reads: list[str] = field(default_factory=list)

    async def get(self, _resource: Any, _namespace: str, name: str) -> dict[str, Any]:
        self.reads.append(name)
        await asyncio.sleep(0)
        if name not in self.makes:
            raise NotFound(f"secrets {name} not found", status=404)
        data = {key: base64.b64encode(text).decode() for key, text in self.makes[name]().items()}
        await asyncio.sleep(0)  # what it takes to make them is no step of ours
        return {"metadata": {"resourceVersion": "1"}, "data": data}


def references(api: Api) -> ReferenceReader:
    context = SimpleNamespace(
        client=api,
        readers=FairLimit(each=1, together=1),
        hasher=lambda: hashlib.blake2b(key=b"key"),
        timing=BundleTiming(),
        memories=Memories(),
        monotonic=lambda: 0.0,
    )
    return ReferenceReader(cast("Any", context), cast("Any", None), lambda _: None)


def entry() -> Any:
    return SimpleNamespace(key=BundleKey("team", "shop"), uid="uid")


def spec_of(*secrets: str) -> BundleSpec:
    sources = [{"kind": "Secret", "name": name} for name in secrets]
    spec = {"registry": "r.example", "repo": "app", "valuesFrom": sources}
    metadata = {"namespace": "team", "name": "shop"}
    found = parse_bundle({"metadata": metadata, "spec": spec}, BundleDefaults())
    assert isinstance(found, BundleSpec)
    return found


@pytest.fixture
async def isolated() -> AsyncIterator[Isolated]:
    child = Isolated()
    yield child
    await child.close()


def redaction(api: Api, isolated: Isolated) -> Redactor:
    return Redactor(cast("Any", api), isolated)


async def test_values_of_eight_megabytes_are_hashed_with_one_source_in_memory() -> None:
    names = [f"big-{number}" for number in range(8)]
    api = Api({name: lambda: {"values.yaml": bytes(MB)} for name in names})

    tracemalloc.start()
    try:
        with measured_steps() as steps:
            found, files = await references(api).values(entry(), spec_of(*names))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert found is not None
    assert [source.keys for source in files] == [("values.yaml",)] * 8
    assert steps.longest < LONGEST, steps.where
    assert peak < 10 * MB, "two sources at most, in base64 and decoded"


async def test_values_beyond_the_bound_are_refused_at_the_source_that_goes_beyond() -> None:
    names = [f"big-{number}" for number in range(64)]
    api = Api({name: lambda: {"values.yaml": bytes(MB)} for name in names})

    with pytest.raises(MissingReferenceError, match=r"Secret team/big-8 .* exceed 8 MiB") as said:
        await references(api).values(entry(), spec_of(*names))

    assert said.value.reason == "ValuesMissing"
    assert "reduce that source" in str(said.value)
    assert api.reads == names[:9], "the others aren't read"


async def test_more_files_than_a_job_can_name_are_refused_before_they_are_looked_into() -> None:
    api = Api({"many": lambda: {f"{number}.yaml": b"" for number in range(100_000)}})

    with measured_steps() as steps, pytest.raises(MissingReferenceError, match="2,000 keys"):
        await references(api).values(entry(), spec_of("many"))

    assert steps.longest < 1.0, steps.where  # making the answer is in it


async def test_what_is_quoted_of_eight_large_secrets_is_found_beside_the_loop(
    isolated: Isolated,
) -> None:
    count = 4 if LONG else 2
    api = Api(
        {f"big-{n}": lambda n=n: {"v": yaml_of(MB // 2, f"v{n}{{:05}}")} for n in range(count)}
    )
    texts = [
        "Error: v000007 is wrong",
        f"a v100008 b v{count // 2}00009\nand a v{count - 1}00010",
    ]

    tracemalloc.start()
    try:
        with measured_steps() as steps:
            found = await redaction(api, isolated).redacted("team", sorted(api.makes), texts)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert found == [
        "Error: <redacted> is wrong",
        "a <redacted> b <redacted>\nand a <redacted>",
    ]
    assert steps.longest < 1.0, steps.where  # the fake API makes the values here
    assert peak < 20 * MB


@pytest.mark.parametrize(
    ("content", "why"),
    [
        pytest.param(
            b"[" * 400_000,
            "processor time",
            id="too deep to be read in time",
            marks=long_form(
                "tests/component/bundles/test_large_values.py"
                "::test_a_failure_is_on_record_though_its_text_is_withheld"
            ),
        ),
        pytest.param(b"a" * BUNDLE_REDACTION_BYTES + b"b", "more than 10 MiB", id="too large"),
    ],
)
async def test_what_cannot_be_looked_through_is_withheld(content: bytes, why: str) -> None:
    api = Api({"bad": lambda: {"values.yaml": content}})
    child = Isolated(cpu_seconds=1)
    try:
        with measured_steps() as steps, pytest.raises(WithheldError, match=why):
            await redaction(api, child).redacted("team", ["bad"], ["Error: no"])
    finally:
        await child.close()

    assert steps.longest < LONGEST, steps.where


async def test_too_many_secrets_are_withheld_unread(isolated: Isolated) -> None:
    api = Api()

    with pytest.raises(WithheldError, match="more than 80 Secrets"):
        await redaction(api, isolated).redacted("team", [f"s{n}" for n in range(81)], ["x"])

    assert not api.reads


async def test_a_failure_is_on_record_though_its_text_is_withheld(
    cluster: BundleCluster, run: Callable[..., Any], bundle: Callable[..., Any]
) -> None:
    deep = base64.b64encode(b"[" * 600_000 + b" hunter-two").decode()
    cluster.put_object("secrets", "values", data={"a.yaml": deep})
    cluster.ends = lambda _job: (1, "Error: render chart: hunter-two is no number")
    bundle(valuesFrom=[{"kind": "Secret", "name": "values"}], retry={"limit": 0})

    await run(isolated=lambda: Isolated(cpu_seconds=1))

    await eventually(lambda: cluster.status().get("history"), seconds=60.0)
    assert cluster.reason() == "Quarantined"
    assert "<withheld: " in cluster.message()
    assert "kubectl -n team logs job/" in cluster.message()
    assert "hunter-two" not in json.dumps(cluster.look("bundles", "shop"))
