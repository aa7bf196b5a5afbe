"""Tag lists as long as they may be, and what is chosen from them: no long step of the loop."""

from __future__ import annotations

import pytest
from tests.steps import STEP_SECONDS, measured_steps

from copyrator.api.tagfilter import compile_filter
from copyrator.api.version_range import VersionRange, parse_version
from copyrator.bundles.engine.registry import add_all
from copyrator.bundles.tags import TagSelection

TAGS = 20_000
SLOW = "(a?){60}" * 2 + ".*"
"""A filter near the bound, for which RE2 has no short way."""
ALTERNATIVES = " || ".join(f">={number}.1 <{number}.2" for number in range(14))


def selection(version: str, tag_filter: str | None = None) -> TagSelection:
    wanted = parse_version(version)
    assert isinstance(wanted, VersionRange)
    matches = compile_filter(tag_filter).matches if tag_filter else None
    return TagSelection(wanted, matches=matches)


@pytest.mark.parametrize(
    ("tags", "choosing"),
    [
        ([f"{n % 50}.{n % 7}.{n}" for n in range(TAGS)], selection(ALTERNATIVES)),
        (["a" * 120 + f".{n}" for n in range(TAGS)], selection("1.*", SLOW)),
        ([f"1.2.{n}-" + "ab" * 60 for n in range(TAGS)], selection("1.*", SLOW)),
        ([f"1.2.{n}." + "9" * 110 for n in range(TAGS)], selection(ALTERNATIVES, SLOW)),
        (["a-" * 60 + f"{n}" for n in range(TAGS)], selection(ALTERNATIVES)),
    ],
    ids=[
        *("many alternatives", "a slow filter on junk", "a slow filter on versions"),
        *("a slow filter on what looks like versions", "long words before a number"),
    ],
)
async def test_a_long_list_is_looked_through_in_short_steps(
    tags: list[str], choosing: TagSelection
) -> None:
    with measured_steps() as steps:
        await add_all(tags, [choosing])

    assert steps.longest < STEP_SECONDS, steps.where
    assert sum(choosing.result().counts.values()) > 0
