"""The types of a Bundle give the schema of its CRD."""

from __future__ import annotations

from typing import Any

from tests.unit.api.test_crd_fields import BUNDLE

from copyrator.api.bundle import PARTS, STATUS_PARTS
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.schema import slots
from generate.crds import composed

RULES = "x-kubernetes-validations"
ATTESTATION = ".promoteFrom.properties.attestations.items.properties"
DIFFERENT = {
    # The pattern refuses an empty text, too.
    ".dependsOn.items.properties.namespace.minLength",
    ".promoteFrom.properties.bundles.items.properties.namespace.minLength",
    f"{ATTESTATION}.cluster.minLength",
    f"{ATTESTATION}.release.minLength",
    ".windows.items.properties.timeZone.minLength",
    # The examples in the message.
    f".minAge.{RULES}",
    f".attest.properties.after.{RULES}",
    f".promoteFrom.properties.soak.{RULES}",
    f"{ATTESTATION}.maxAge.{RULES}",
    f"{ATTESTATION}.soak.{RULES}",
}


def differences(before: Any, now: Any, path: str = "") -> set[str]:
    """The paths of what differs, but for line breaks in texts and the order of names."""
    if isinstance(before, dict) and isinstance(now, dict):
        names = before.keys() | now.keys()
        pairs = ((f"{path}.{one}", before.get(one), now.get(one)) for one in names)
        return {found for at, old, new in pairs for found in differences(old, new, at)}
    if isinstance(before, str) and isinstance(now, str):
        return set() if before.split() == now.split() else {path}
    if isinstance(before, list) and path.endswith(("required", RULES)):
        return set() if _words(before) == _words(now) else {path}
    return set() if before == now else {path}


def _words(items: list[Any]) -> list[list[str]]:
    return sorted(str(one).split() for one in items)


def test_the_types_give_the_schema_of_the_crd() -> None:
    crd = dict(BUNDLE["properties"]["spec"])
    made = composed(BundleSpec, PARTS, description=crd["description"])

    assert differences(crd["properties"], made["properties"]) == DIFFERENT
    del crd["properties"], made["properties"]
    assert differences(crd, made) == set()


SHARED = (".plan.", ".preview.", ".drift.properties.check.", ".conditions.", ".suspension.")
"""What all plans have is described once, and what both kinds have."""
COUNTED = {
    # As in rules' statuses.
    ".conditions.items.properties.observedGeneration.minimum",
    ".suspension.properties.generation.minimum",
}


def test_the_types_give_the_schema_of_the_status() -> None:
    crd = dict(BUNDLE["properties"]["status"])
    made = composed(BundleStatus, STATUS_PARTS, description=crd["description"])

    found = differences(crd.pop("properties"), made.pop("properties"))
    texts = {one for one in found if one.endswith(".description")}
    assert found - texts == COUNTED
    assert {one for one in texts if not one.startswith(SHARED)} == set()
    assert differences(crd, made) == set()


def test_no_two_parts_of_the_status_have_a_field_of_the_same_name() -> None:
    parts = [[one.FIELD] if one.FIELD else [s.name for s in slots(one)] for one in STATUS_PARTS]
    names = [s.name for s in slots(BundleStatus)] + [name for part in parts for name in part]
    assert len(names) == len(set(names))
