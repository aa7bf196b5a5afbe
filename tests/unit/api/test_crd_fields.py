"""The CRDs and the parsers know the same fields, words and defaults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.status_fields import json_fields
from tests.targets import EVERYWHERE

from copyrator.api.approval import ApprovalMode
from copyrator.api.bundle import BundleDefaults, parse_bundle
from copyrator.api.bundle_spec import DEFAULT_VERSION, BundleDeletionPolicy, BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.conditions import ConditionStatus
from copyrator.api.drift import DriftMode
from copyrator.api.health import HealthMode
from copyrator.api.object_refs import ValuesKind
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.records import Record
from copyrator.api.rollout import Restart
from copyrator.api.rule import parse_rule
from copyrator.api.rule_spec import (
    ConflictPolicy,
    ImmutablePolicy,
    Mode,
    RuleSpec,
)
from copyrator.api.rule_spec import DeletionPolicy as RuleDeletionPolicy
from copyrator.api.selectors import Operator

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


def field(schema: Schema, path: str) -> Schema:
    return dict(walk(schema))[path]


class Spy(dict[str, Any]):
    """A map that notes which fields are asked for."""

    def __init__(self, raw: dict[str, Any], path: str, seen: set[str]) -> None:
        def wrap(value: Any, here: str) -> Any:
            if isinstance(value, dict):
                return Spy(value, here, seen)
            if isinstance(value, list):
                return [wrap(item, f"{here}[]") for item in value]
            return value

        self.path, self.seen = path, seen
        super().__init__({key: wrap(value, self.at(key)) for key, value in raw.items()})

    def at(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def get(self, key: str, default: Any = None) -> Any:
        self.seen.add(self.at(key))
        return super().get(key, default)


SELECTOR = {
    "matchLabels": {"a": "b"},
    "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
}
REMOTE = {"kubeConfig": {"secretName": "x", "key": "y"}}
TRANSFORM = {
    "name": "x",
    "keys": {"include": ["a"], "exclude": ["b"], "rename": {"a": "c"}},
    "labels": {"add": {"a": "b"}, "remove": ["c"]},
    "annotations": {"add": {"a": "b"}, "remove": ["c"]},
}
RULES: list[dict[str, Any]] = [
    {"ruleType": "secret", "selector": {"a": "b"}, "namespace": "x", "namespaces": ["y"]},
    {
        "spec": {
            "source": {"kind": "Secret", "selector": SELECTOR, "namespace": "x"} | REMOTE,
            "targets": {"namespaces": ["a"], "exclude": ["b"], "selector": SELECTOR},
            "transform": TRANSFORM,
            "rollout": {"steps": ["1", "100%"], "first": SELECTOR},
        }
    },
    {
        "spec": {
            "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}},
            "targets": EVERYWHERE,
            "sources": [
                {"as": "a", "kind": "Secret", "namespace": "x", "name": "y", "optional": True},
                {"as": "b", "kind": "Secret", "selector": SELECTOR} | REMOTE,
            ],
        }
    },
]
REF = {"kind": "Secret", "name": "x"}
AUTHORITY = {"signingAuthorityFrom": REF}
ROOT_FROM = {"trustedRootFrom": REF}
BUNDLES: list[dict[str, Any]] = [
    {
        "metadata": {"name": "x", "namespace": "y"},
        "spec": {
            "registry": "r",
            "repo": "a",
            "env": {"A": 1},
            "secretKey": {"secretName": "x", "key": "y"},
            "kubeConfig": {"secretName": "x", "key": "y"},
            "valuesFrom": [{"kind": "Secret", "name": "x"}],
            "werf": {"image": "x"},
            "job": {"podLabels": {"a": "b"}, "tolerations": [{"operator": "Exists"}]},
            "retry": {"limit": 1},
            "approval": {"mode": "OnRisk"},
            "minAge": "2h",
            "dependsOn": [{"namespace": "y", "name": "z"}],
            "promoteFrom": {
                "bundles": [{"namespace": "y", "name": "z"}],
                "soak": "24h",
                "attestations": [
                    {
                        "environment": "staging",
                        "cosign": {"keysFrom": REF},
                        "soak": "24h",
                        "maxAge": "48h",
                        "cluster": "u",
                        "release": "y/z",
                    }
                ],
            },
            "attest": {
                "environment": "staging",
                "keyFrom": {"secretName": "x", "key": "y", "passwordKey": "z", "operator": False},
                "after": "24h",
                "auth": "x",
                "renew": "24h",
            },
            "windows": [{"days": ["Mon"], "from": "09:00", "to": "17:00", "timeZone": "UTC"}],
            "drift": {"mode": "Detect", "ignore": [{"kind": "Deployment", "name": "web-*"}]},
            "verify": {
                "anyOf": [
                    {"cosign": {"keysFrom": REF}},
                    {"cosign": {"issuer": "https://i", "subjectPattern": "s"} | ROOT_FROM},
                    {"notation": {"subjects": ["*"], "caFrom": REF, "tsaFrom": REF} | AUTHORITY},
                ]
            },
        },
    }
]
DEFAULTS = BundleDefaults()

RAW = ("spec.job.resources", "spec.job.tolerations[]", "spec.job.securityContext")
"""Handed on to the pod as they are; the CRD alone knows their fields."""


def asked_for(schema: Schema, seen: set[str]) -> set[str]:
    """What a parser asked for, without what the API server's own types hold."""
    root = set(schema["properties"]) - {"apiVersion", "kind", "metadata", "status"}
    return {
        path
        for path in seen
        if path.split(".")[0] in root
        and not path.startswith("spec.template.")
        and not path.startswith(RAW)
    }


def declared(schema: Schema) -> set[str]:
    return {
        path
        for path, _ in walk(schema)
        if path.split(".")[0] not in {"apiVersion", "kind", "metadata", "status"}
        and not path.startswith("spec.template.")
        and not path.startswith(RAW)
    }


def test_the_rule_parser_and_the_crd_know_the_same_fields() -> None:
    seen: set[str] = set()
    for body in RULES:
        assert isinstance(parse_rule(Spy(body, "", seen)), RuleSpec)
    assert asked_for(RULE, seen) == declared(RULE)


def test_the_bundle_parser_and_the_crd_know_the_same_fields() -> None:
    seen: set[str] = set()
    for body in BUNDLES:
        assert isinstance(parse_bundle(Spy(body, "", seen), DEFAULTS), BundleSpec)
    raw = {"spec.job.resources", "spec.job.securityContext"}
    assert asked_for(BUNDLE, seen | raw) | raw == declared(BUNDLE) | raw


def record_fields(record: type[Record], path: str) -> Iterator[str]:
    for name, wanted in json_fields(record).items():
        here = f"{path}.{name}"
        yield here
        inner = getattr(wanted, "__args__", (wanted,))[0]
        if isinstance(inner, type) and issubclass(inner, Record):
            yield from record_fields(inner, here if inner is wanted else f"{here}[]")


def test_the_bundle_status_and_the_crd_know_the_same_fields() -> None:
    in_crd = {path for path, _ in walk(BUNDLE) if path.startswith("status.")}
    conditions = {path for path in in_crd if path.startswith("status.conditions[]")}
    assert set(record_fields(BundleStatus, "status")) == in_crd - conditions


ENUMS: list[tuple[Schema, str, type[Any]]] = [
    (RULE, "spec.onConflict", ConflictPolicy),
    (RULE, "spec.onImmutable", ImmutablePolicy),
    (RULE, "spec.deletionPolicy", RuleDeletionPolicy),
    (RULE, "spec.mode", Mode),
    (RULE, "spec.rollout.restart", Restart),
    (RULE, "spec.source.selector.matchExpressions[].operator", Operator),
    (RULE, "spec.targets.selector.matchExpressions[].operator", Operator),
    (RULE, "status.conditions[].status", ConditionStatus),
    (BUNDLE, "spec.deletionPolicy", BundleDeletionPolicy),
    (BUNDLE, "spec.approval.mode", ApprovalMode),
    (BUNDLE, "spec.drift.mode", DriftMode),
    (BUNDLE, "spec.health", HealthMode),
    (BUNDLE, "spec.valuesFrom[].kind", ValuesKind),
    (BUNDLE, "status.conditions[].status", ConditionStatus),
]


@pytest.mark.parametrize(("schema", "path", "words"), ENUMS, ids=[path for _, path, _ in ENUMS])
def test_the_words_are_the_same(schema: Schema, path: str, words: type[Any]) -> None:
    assert field(schema, path)["enum"] == [word.value for word in words]


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
    assert parse_bundle(full, DEFAULTS) == parse_bundle(bundle, DEFAULTS)
    assert full["spec"]["version"] == DEFAULT_VERSION


@pytest.mark.parametrize("schema", [RULE, BUNDLE], ids=["rule", "bundle"])
def test_every_field_is_described_in_whole_sentences(schema: Schema) -> None:
    for path, inner in walk(schema):
        if path.split(".")[0] == "metadata":
            continue  # the API server allows no description there
        text = inner.get("description", "")
        assert text.endswith("."), path
        assert len(text) > 3, path


def test_the_bundle_crd_names_every_reason() -> None:
    text = field(BUNDLE, "status.conditions[].reason")["description"]
    assert [reason for reason in BundleReason if reason.value not in text] == []


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
