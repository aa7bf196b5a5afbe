"""What the types don't say by themselves: defaults, whole sentences, bounds for CEL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.targets import EVERYWHERE

from copyrator.api.bundle_spec import DEFAULT_VERSION
from copyrator.api.rule_spec import parse_rule
from copyrator.bundles.fields import BundleDefaults, parse_bundle

CRDS = Path(__file__).parents[3] / "crds"
Schema = dict[str, Any]


def load(name: str) -> Schema:
    # By libyaml: each worker of a test run reads this file at its start.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    crd = yaml.load((CRDS / name).read_text(), loader)
    schema: Schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


RULE = load("copyrators.flant.com.yaml")
BUNDLE = load("bundles.operator.werf.dev.yaml")


def walk(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Every field of a schema below ``path``, lists marked with []."""
    for name, field in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield here, field
        yield from walk(field, here)
        if "items" in field:
            yield from walk(field["items"], f"{here}[]")


def field_names(schema: Schema) -> list[str]:
    """Of all fields of a spec."""
    paths = (path for path, _ in walk(schema["properties"]["spec"]))
    return sorted({path.rpartition(".")[2] for path in paths})


def test_the_defaults_of_the_crds_are_those_of_the_parsers() -> None:
    def with_defaults(schema: Schema, body: dict[str, Any]) -> dict[str, Any]:
        spec = {
            name: inner["default"]
            for name, inner in schema["properties"]["spec"]["properties"].items()
            if "default" in inner
        }
        assert spec
        return {**body, "spec": {**spec, **body["spec"]}}

    rule = {"spec": {"source": {"kind": "Secret", "name": "x"}, "targets": EVERYWHERE}}
    assert parse_rule(with_defaults(RULE, rule)) == parse_rule(rule)
    bundle = {"metadata": {"name": "x", "namespace": "y"}, "spec": {"registry": "r", "repo": "a"}}
    full = with_defaults(BUNDLE, bundle)
    assert parse_bundle(full, BundleDefaults()) == parse_bundle(bundle, BundleDefaults())
    assert full["spec"]["version"] == DEFAULT_VERSION


@pytest.mark.parametrize("schema", [RULE, BUNDLE], ids=["rule", "bundle"])
def test_every_field_is_described_in_whole_sentences(schema: Schema) -> None:
    for path, inner in walk(schema):
        if path.split(".")[0] == "metadata":
            continue  # the API server allows no description there
        text = inner.get("description", "")
        assert text.endswith("."), path
        assert len(text) > 3, path


@pytest.mark.parametrize("schema", [RULE, BUNDLE], ids=["rule", "bundle"])
def test_what_cel_looks_at_is_bounded(schema: Schema) -> None:
    for path, inner in walk(schema):
        if path.startswith("status") or path in {"apiVersion", "kind", "metadata"}:
            continue
        if inner.get("type") == "string" and "enum" not in inner:
            assert "maxLength" in inner, path
        if inner.get("type") == "array":
            assert "maxItems" in inner, path
        if "additionalProperties" in inner:
            assert "maxProperties" in inner, path
