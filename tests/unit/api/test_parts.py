"""What features add to a Bundle's spec and status stands flat beside the engine's fields."""

from __future__ import annotations

import msgspec
import pytest

from copyrator.api.bundle import PARTS, STATUS_PARTS
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.schema import slots


@pytest.mark.parametrize(
    ("engine", "parts"), [(BundleSpec, PARTS), (BundleStatus, STATUS_PARTS)], ids=["spec", "status"]
)
def test_no_two_parts_have_a_field_of_the_same_name(
    engine: type[msgspec.Struct], parts: tuple[type, ...]
) -> None:
    of_parts = [[one.FIELD] if one.FIELD else [s.name for s in slots(one)] for one in parts]
    names = [s.name for s in slots(engine)] + [name for part in of_parts for name in part]
    assert len(names) == len(set(names))
