"""The bounds of a field that the operator checks, not the CRD, stand in the field's description."""

import re

import pytest
import yaml

from copyrator.api import (
    bundle_spec,
    kubeconfig,
    rollout,
    rule,
    rule_template,
    selectors,
    tagfilter,
    version_range,
)
from copyrator.bundles.inputs import reader
from copyrator.copies.template import scope
from copyrator.oci import auth
from copyrator.settings import limits
from demo.chart import ROOT

CHARACTERS = [
    rule_template.TEMPLATE_TEXT,
    rule_template.TEMPLATE_TEXTS,
    limits.RENDERED_TEXT,
    scope.RENDERED_OBJECT,
]
ENV = [bundle_spec.BUNDLE_ENV_VALUE, bundle_spec.BUNDLE_ENV_BYTES]
VALUES = [limits.BUNDLE_VALUES_BYTES, limits.BUNDLE_VALUES_FILES]
BOUNDS = {
    "copyrators.flant.com": {
        "spec": [rule.RULE_VALUES, limits.RULE_DEPTH],
        "selector": [rule.SELECTOR_TEXT],
        "spec.source.kubeConfig": [kubeconfig.KUBECONFIG_BYTES],
        "spec.source.selector": [selectors.MAX_REQUIREMENTS],
        "spec.sources.selector": [selectors.MAX_REQUIREMENTS],
        "spec.targets.selector": [selectors.MAX_REQUIREMENTS],
        "spec.rollout.pause": [rollout.ROLLOUT_PAUSE],
        "spec.template": CHARACTERS,
        "spec.transform.keys.include": [limits.MAX_GLOB_TEXT],
        "spec.transform.keys.exclude": [limits.MAX_GLOB_TEXT],
    },
    "bundles.operator.werf.dev": {
        "spec.auth": [auth.CREDENTIAL_BYTES, auth.DOCKER_CONFIG_BYTES],
        "spec.caSecret": [limits.CA_BYTES],
        "spec.env": ENV,
        "spec.job.podAnnotations": [bundle_spec.BUNDLE_POD_ANNOTATIONS],
        "spec.job.resources": [bundle_spec.BUNDLE_JOB_FIELD],
        "spec.job.securityContext": [bundle_spec.BUNDLE_JOB_FIELD],
        "spec.job.tolerations": [bundle_spec.BUNDLE_JOB_FIELD],
        "spec.kubeConfig": [kubeconfig.KUBECONFIG_BYTES],
        "spec.secretKey": [reader.BUNDLE_SECRET_KEY],
        "spec.tagFilter": [tagfilter.TAG_FILTER_STEPS],
        "spec.values": VALUES,
        "spec.valuesFrom": VALUES,
        "spec.version": [version_range.VERSION_CONSTRAINTS],
    },
}
UNITS = {"KiB": 1024, "MiB": 1024 * 1024, "h": 3600}


def description(crd: str, path: str) -> str:
    version = yaml.safe_load((ROOT / "crds" / f"{crd}.yaml").read_text())["spec"]["versions"][0]
    field = version["schema"]["openAPIV3Schema"]
    for name in path.split("."):
        field = field.get("items", field)["properties"][name]
    return " ".join(field["description"].split())


def said(text: str) -> list[int]:
    """All numbers of a text, in bytes or seconds where it names a unit."""
    found = re.findall(r"\b(\d[\d,]*)(?: ?(KiB|MiB|h)\b)?", text)
    return [int(number.replace(",", "")) * UNITS.get(unit, 1) for number, unit in found]


@pytest.mark.parametrize(
    ("crd", "field", "bounds"),
    [(crd, *one) for crd, fields in BOUNDS.items() for one in fields.items()],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_fields_description_has_its_bounds(crd: str, field: str, bounds: list[int]) -> None:
    assert set(bounds) <= set(said(description(crd, field)))
