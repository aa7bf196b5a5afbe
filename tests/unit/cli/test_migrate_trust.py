"""trust-manager's Bundles and secretgen's SecretImports as rules."""

import base64
from datetime import UTC, datetime, timedelta

import pytest

from copyrator.api.rule import parse_rule
from copyrator.api.rule_spec import RuleSpec
from copyrator.cli.migrate.trust import bundle_rules, imported
from copyrator.copies.template.rendering import Composing, Tree
from localcluster.signing import self_signed

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def certificate(name: str) -> str:
    return self_signed(name, begins=NOW, ends=NOW + timedelta(days=1))


A, B, C, D = map(certificate, "abcd")


def bundle(sources, **target):
    return {
        "metadata": {"name": "cas"},
        "spec": {"sources": sources, "target": target or {"configMap": {"key": "ca.pem"}}},
    }


SOURCES = [
    {"useDefaultCAs": True},
    {"configMap": {"name": "one", "key": "ca.crt"}},
    {"secret": {"selector": {"matchLabels": {"ca": "yes"}}, "key": "tls.crt"}},
    {"configMap": {"name": "all", "includeAllKeys": True}},
    {"inLine": f"it's a comment\n{D}"},
]


def found(kind, name, **data):
    values = {key.replace("_", "."): value for key, value in data.items()}
    if kind == "Secret":
        values = {k: base64.b64encode(v.encode()).decode() for k, v in values.items()}
    metadata = {"namespace": "trust", "name": name}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": values}


def test_a_bundle_becomes_a_rule_that_makes_the_same_bundle():
    (one,) = bundle_rules(bundle(SOURCES), "trust")
    body = one.rule("copyrator")
    spec = parse_rule(body)
    assert isinstance(spec, RuleSpec), spec
    assert body["metadata"] == {"name": "cas-configmap", "namespace": "copyrator"}
    assert spec.on_conflict == "Adopt"
    assert {entry.namespace for entry in spec.sources} == {"trust"}
    entries = {
        "source1": found("ConfigMap", "one", ca_crt=A),
        "source2": [found("Secret", "x", tls_crt=B), found("Secret", "y", tls_crt=A)],
        "source3": found("ConfigMap", "all", k=C),
    }
    assert spec.template is not None
    made = Composing(entries, NOW).render(Tree(spec.template.body), "ConfigMap", {})
    assert made["data"] == {"ca.pem": A + B + C + D}
    assert made["metadata"] == {"name": "cas"}
    assert "useDefaultCAs can't be carried over" in one.remarks[0]


def test_each_target_becomes_a_rule_with_its_metadata_and_namespaces():
    selector = {"matchLabels": {"team": "x"}}
    target = {
        "configMap": {"key": "a", "metadata": {"labels": {"l": "1"}, "annotations": {}}},
        "secret": {"key": "b"},
        "additionalFormats": {"jks": {"key": "j"}, "pkcs12": {"key": "p"}},
        "namespaceSelector": selector,
    }
    config, secret = bundle_rules(bundle(SOURCES[1:2], **target), "trust")
    assert (config.kind, secret.kind) == ("ConfigMap", "Secret")
    assert config.spec["template"]["metadata"] == {"name": "cas", "labels": {"l": "1"}}
    assert list(secret.spec["template"]["stringData"]) == ["b"]
    for one in (config, secret):
        assert isinstance(parse_rule(one.rule("copyrator")), RuleSpec)
        assert one.spec["targets"] == {"selector": selector}
        assert [remark.partition(" can't")[0] for remark in one.remarks] == [
            "the JKS trust store",
            "the PKCS#12 trust store",
        ]


def test_a_bundle_of_inline_certificates_needs_no_sources():
    (one,) = bundle_rules(bundle(SOURCES[-1:]), "trust")
    spec = parse_rule(one.rule("copyrator"))
    assert isinstance(spec, RuleSpec)
    assert spec.sources == ()
    assert spec.template is not None
    assert Tree(spec.template.body).render({})["data"] == {"ca.pem": D}


def test_a_bundle_without_targets_or_spec_has_no_rule():
    assert bundle_rules({"metadata": {"name": "x"}}, "trust") == []


def export(**spec):
    return {"metadata": {"namespace": "infra", "name": "token"}, "spec": spec}


def wanted(namespace, source="infra"):
    return {
        "metadata": {"namespace": namespace, "name": "token"},
        "spec": {"fromNamespace": source},
    }


@pytest.mark.parametrize(
    ("exports", "namespaces", "left_out"),
    [
        ([export(toNamespace="*")], ("a", "b"), False),
        ([export(toNamespaces=["*"])], ("a", "b"), False),
        ([export(dangerousToNamespacesSelector=[{"key": "k"}])], ("a", "b"), False),
        ([export(toNamespaces=["a"])], ("a",), True),
        ([export(toNamespace="b")], ("b",), True),
    ],
)
def test_imports_of_one_secret_become_one_rule(exports, namespaces, left_out):
    (one,) = imported([wanted("b"), wanted("a")], exports)
    assert (one.namespace, one.name, one.namespaces) == ("infra", "token", namespaces)
    assert any("left out" in remark for remark in one.remarks) is left_out
    assert isinstance(parse_rule(one.rule("copyrator", "x")), RuleSpec)


@pytest.mark.parametrize("exports", [[], [export(toNamespaces=["c"])], [export()]])
def test_what_nobody_exports_becomes_no_rule(exports):
    assert list(imported([wanted("a")], exports)) == []
