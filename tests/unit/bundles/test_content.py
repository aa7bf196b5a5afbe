"""What features know of what a version is made of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from copyrator.bundles.engine.bundle import Memories
from copyrator.bundles.engine.feature import Content, Feature, Features
from copyrator.oci.errors import RegistryError, RegistryUnreachable

READING = None
DOWN = RegistryUnreachable("it is down")
CHART = Content(("a:1 draws",), ("say who",))
WORDS = Content((), ("hello",))


def knowing(found: Content | RegistryError | None) -> Feature:
    class Knowing(Feature):
        async def content(self, *_: object) -> Content | RegistryError | None:
            return found

    return Knowing(cast("Any", SimpleNamespace()))


@pytest.mark.parametrize(
    ("known", "whole"),
    [
        ((CHART, WORDS), Content(("a:1 draws",), ("say who", "hello"))),
        ((WORDS, CHART), Content(("a:1 draws",), ("hello", "say who"))),
        ((WORDS, READING), READING),
        ((DOWN, WORDS), DOWN),
    ],
)
async def test_all_that_is_known_counts_and_what_isnt_there_yet_is_awaited(
    known: tuple[Content | RegistryError | None, ...], whole: Content | RegistryError | None
) -> None:
    features = Features([*map(knowing, known)], Memories())
    assert await features.content(cast("Any", None), cast("Any", None), "sha256:a") == whole


async def test_without_a_feature_that_judges_charts_no_plan_is_bound() -> None:
    features = Features([Feature(cast("Any", SimpleNamespace()))], Memories())
    found = await features.content(cast("Any", None), cast("Any", None), "sha256:a")
    assert isinstance(found, Content)
    assert found.unbound == ("nothing judges the chart",)
