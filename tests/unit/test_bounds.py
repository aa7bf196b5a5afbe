"""The bounds of a field that the operator checks, not the CRD, stand in the field's description."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from copyrator import api
from copyrator.api import (
    bundle_spec,
    docker_config,
    kubeconfig,
    rollout,
    rule_spec,
    selectors,
    tagfilter,
    version_range,
)
from demo.chart import ROOT

CHARACTERS = [
    rule_spec.TEMPLATE_TEXT,
    rule_spec.TEMPLATE_TEXTS,
    rule_spec.RENDERED_TEXT,
    rule_spec.RENDERED_OBJECT,
]
ENV = [bundle_spec.BUNDLE_ENV_VALUE, bundle_spec.BUNDLE_ENV_BYTES]
VALUES = [bundle_spec.BUNDLE_VALUES_BYTES, bundle_spec.BUNDLE_VALUES_FILES]
BOUNDS = {
    "copyrators.flant.com": {
        "spec": [rule_spec.RULE_VALUES, rule_spec.RULE_DEPTH],
        "selector": [rule_spec.SELECTOR_TEXT],
        "spec.source.kubeConfig": [kubeconfig.KUBECONFIG_BYTES],
        "spec.source.selector": [selectors.MAX_REQUIREMENTS],
        "spec.sources": [rule_spec.COMPOSED_OBJECTS, rule_spec.COMPOSED_BYTES],
        "spec.sources.selector": [selectors.MAX_REQUIREMENTS],
        "spec.targets.selector": [selectors.MAX_REQUIREMENTS],
        "spec.rollout.pause": [rollout.ROLLOUT_PAUSE],
        "spec.template": CHARACTERS,
        "spec.transform.keys.include": [selectors.MAX_GLOB_TEXT],
        "spec.transform.keys.exclude": [selectors.MAX_GLOB_TEXT],
    },
    "bundles.operator.werf.dev": {
        "spec.auth": [docker_config.CREDENTIAL_BYTES, docker_config.DOCKER_CONFIG_BYTES],
        "spec.caSecret": [bundle_spec.CA_BYTES],
        "spec.env": ENV,
        "spec.job.podAnnotations": [bundle_spec.BUNDLE_POD_ANNOTATIONS],
        "spec.job.resources": [bundle_spec.BUNDLE_JOB_FIELD],
        "spec.job.securityContext": [bundle_spec.BUNDLE_JOB_FIELD],
        "spec.job.tolerations": [bundle_spec.BUNDLE_JOB_FIELD],
        "spec.kubeConfig": [kubeconfig.KUBECONFIG_BYTES],
        "spec.secretKey": [bundle_spec.BUNDLE_SECRET_KEY],
        "spec.tagFilter": [tagfilter.TAG_FILTER_STEPS],
        "spec.values": VALUES,
        "spec.valuesFrom": VALUES,
        "spec.version": [version_range.VERSION_CONSTRAINTS],
    },
}
UNITS = {"KiB": 1024, "MiB": 1024 * 1024, "h": 3600}


def schema(crd: str) -> dict[str, Any]:
    version = yaml.safe_load((ROOT / "crds" / f"{crd}.yaml").read_text())["spec"]["versions"][0]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return found


def described(field: dict[str, Any]) -> str:
    return " ".join(field.get("description", "").split())


def said(text: str) -> list[int]:
    """All numbers of a text, in bytes or seconds where it names a unit."""
    found = re.findall(r"\b(\d[\d,]*)(?: ?(KiB|MiB|h)\b)?", text)
    return [int(number.replace(",", "")) * UNITS.get(unit, 1) for number, unit in found]


@pytest.mark.parametrize(
    ("crd", "path", "bounds"),
    [(crd, *one) for crd, fields in BOUNDS.items() for one in fields.items()],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_fields_description_has_its_bounds(crd: str, path: str, bounds: list[int]) -> None:
    field = schema(crd)
    for name in path.split("."):
        field = field.get("items", field)["properties"][name]
    assert set(bounds) <= set(said(described(field)))


def descriptions(field: dict[str, Any]) -> Iterator[str]:
    yield described(field)
    below = [field.get("items"), field.get("additionalProperties")]
    for one in (*field.get("properties", {}).values(), *below):
        if isinstance(one, dict):
            yield from descriptions(one)


@pytest.mark.parametrize("crd", BOUNDS)
def test_a_bound_in_a_specs_description_stands_in_the_types(crd: str) -> None:
    """Those of thousands: smaller numbers may be anything."""
    modules = pkgutil.walk_packages(api.__path__, "copyrator.api.")
    constants = [vars(importlib.import_module(one.name)).values() for one in modules]
    known = {value for values in constants for value in values if isinstance(value, int)}
    spec = schema(crd)["properties"]["spec"]
    large = re.compile(r"\b\d+(?:,\d{3})+\b|\b\d+ [KM]iB\b")
    found = {one for text in descriptions(spec) for one in large.findall(text)}
    assert found
    assert {one for one in found if said(one)[0] not in known} == set()
