"""What features add to a Bundle's spec and status stands flat beside the engine's fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import pytest

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.schema import slots
from copyrator.bundles.fields import spec_parts, status_parts

PARTS, STATUS_PARTS = spec_parts(), status_parts()
MAY_NAME = {
    "drift": {"approval"},
    "previews": {"approval"},
    "rollback": {"approval"},
    "attest": {"promotion", "signatures"},
}
"""Features whose types may name those of others."""


def structs_in(kind: Any) -> Iterator[type[msgspec.Struct]]:
    """A type, and those of what its values hold."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield from (one for one in kind.__mro__ if one.__module__.startswith("copyrator."))
        for slot in slots(kind):
            yield from structs_in(slot.kind)
    for one in get_args(kind):
        yield from structs_in(one)


def features_of(kind: type[msgspec.Struct]) -> set[str]:
    """The features whose types a type names."""
    parts = [one.__module__.split(".") for one in structs_in(kind)]
    return {one[3] for one in parts if one[:3] == ["copyrator", "bundles", "features"]}


@pytest.mark.parametrize(
    ("engine", "parts"), [(BundleSpec, PARTS), (BundleStatus, STATUS_PARTS)], ids=["spec", "status"]
)
def test_no_two_parts_have_a_field_of_the_same_name(
    engine: type[msgspec.Struct], parts: tuple[type, ...]
) -> None:
    of_parts = [[one.FIELD] if one.FIELD else [s.name for s in slots(one)] for one in parts]
    names = [s.name for s in slots(engine)] + [name for part in of_parts for name in part]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("part", [*PARTS, *STATUS_PARTS], ids=lambda one: one.__name__)
def test_a_features_types_name_no_other_features(part: type[msgspec.Struct]) -> None:
    own = {*part.__module__.split(".")[3:4]}
    assert features_of(part) <= own.union(*(MAY_NAME.get(one, ()) for one in own))


@pytest.mark.parametrize("engine", [BundleSpec, BundleStatus])
def test_the_engines_types_name_no_features(engine: type[msgspec.Struct]) -> None:
    assert not features_of(engine)
