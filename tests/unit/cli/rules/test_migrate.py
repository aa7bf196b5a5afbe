"""What other tools' annotations and objects mean as rules."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
from tests.targets import EVERYWHERE
from tests.unit.copies.test_keystores import der, read_jks, read_pkcs12

from copyrator.api.rule_spec import RuleSpec, parse_rule
from copyrator.cli.rules.migrate import (
    bundle_rules,
    cluster_secret,
    import_requests,
    migrations,
    requests,
)
from copyrator.copies.template.filters import read_certificates
from copyrator.copies.template.rendering import Composing, Tree
from copyrator.copies.template.scope import Meter, PublicCAs
from localcluster.signing import self_signed

KNOWN = ("default", "kube-system", "prod-1", "prod-2", "team-a", "team-b")
KR = "replicator.v1.mittwald.de/"
RF = "reflector.v1.k8s.emberstack.com/"


def printed(*bodies, kind="Secret"):
    """The rules that migrate prints, each of which is valid."""
    found = [one.manifest("copyrator") for one in migrations(requests(kind, bodies, KNOWN))]
    for rule in found:
        assert isinstance(parse_rule(rule), RuleSpec), parse_rule(rule)
    return found


def rules(*bodies):
    return [rule["spec"] for rule in printed(*bodies)]


def marked(**annotations):
    return {"metadata": {"namespace": "default", "name": "creds", "annotations": annotations}}


SOURCE = {"kind": "Secret", "namespace": "default", "name": "creds"}


@pytest.mark.parametrize(
    ("annotations", "targets"),
    [
        ({f"{KR}replicate-to": "team-a,team-b"}, {"namespaces": ["team-a", "team-b"]}),
        ({f"{KR}replicate-to": "team-.*"}, {"namespaces": ["team-*"]}),
        ({f"{KR}replicate-to": "prod-[12]"}, {"namespaces": ["prod-1", "prod-2"]}),
        ({f"{KR}replicate-to": ".*"}, EVERYWHERE),
        ({f"{KR}replicate-to": "nothing-[0-9]x"}, {"namespaces": ["no-namespace-matches"]}),
        (
            {f"{KR}replicate-to-matching": "team=a, env=prod"},
            {"selector": {"matchLabels": {"team": "a", "env": "prod"}}},
        ),
        (
            {
                f"{RF}reflection-allowed": "true",
                f"{RF}reflection-auto-enabled": "true",
                f"{RF}reflection-auto-namespaces": "team-a,prod-[0-9]*",
            },
            {"namespaces": ["team-a", "prod-1", "prod-2"]},
        ),
        ({f"{RF}reflection-allowed": "true", f"{RF}reflection-auto-enabled": "true"}, EVERYWHERE),
        ({"kubed.appscode.com/sync": ""}, EVERYWHERE),
        ({"kubed.appscode.com/sync": "a=b"}, {"selector": {"matchLabels": {"a": "b"}}}),
    ],
    ids=str,
)
def test_a_source_that_is_pushed_becomes_one_adopting_rule(annotations, targets):
    (spec,) = rules(marked(**annotations))
    assert spec["source"] == SOURCE
    assert spec["targets"] == targets
    assert spec["onConflict"] == "Adopt"


def test_what_a_tool_is_only_allowed_to_do_is_no_rule():
    assert rules(marked(**{f"{RF}reflection-allowed": "true"}), marked(other="x")) == []


def test_targets_that_pull_one_source_become_one_rule_for_each_name():
    def pull(namespace, name):
        body = marked(**{f"{KR}replicate-from": "default/creds"})
        body["metadata"] |= {"namespace": namespace, "name": name}
        return body

    found = rules(pull("team-b", "creds"), pull("team-a", "creds"), pull("prod-1", "other"))
    assert [(spec["targets"]["namespaces"], spec.get("transform")) for spec in found] == [
        (["team-a", "team-b"], None),
        (["prod-1"], {"name": "other"}),
    ]


def test_a_clustersecret_that_names_a_secret_is_a_rule_and_one_that_holds_data_says_what_to_do():
    reference = {"secretKeyRef": {"name": "creds", "namespace": "default"}}
    body = {
        "metadata": {"name": "shared"},
        "matchNamespace": ["team-.*"],
        "avoidNamespaces": ["team-b"],
        "data": {"valueFrom": reference},
    }
    spec = cluster_secret(body, KNOWN).rule("shared").spec
    assert spec["source"] == SOURCE
    assert spec["targets"] == {"namespaces": ["team-*"], "exclude": ["team-b"]}
    assert spec["transform"] == {"name": "shared"}
    body["data"] = {"password": "czNjcmV0"}
    assert "create the Secret shared from it first" in cluster_secret(body, KNOWN).remarks[0]


@pytest.mark.parametrize(
    ("selector", "meant"),
    [
        ("team", [{"key": "team", "operator": "Exists"}]),
        ("!team", [{"key": "team", "operator": "DoesNotExist"}]),
        ("team!=a", [{"key": "team", "operator": "NotIn", "values": ["a"]}]),
        ("team in (a, b)", [{"key": "team", "operator": "In", "values": ["a", "b"]}]),
        ("team notin (a)", [{"key": "team", "operator": "NotIn", "values": ["a"]}]),
    ],
)
def test_every_form_of_a_label_selector_is_understood(selector, meant):
    (spec,) = rules(marked(**{f"{KR}replicate-to-matching": selector}))
    assert spec["targets"] == {"selector": {"matchExpressions": meant}}


@pytest.mark.parametrize("text", ["team in (a", "a=b=c", ",", "team ~ x"])
def test_a_selector_that_is_none_means_no_namespace_and_never_all(text):
    body = marked(**{f"{KR}replicate-to-matching": text})
    (spec,) = rules(body)
    assert spec["targets"] == {"namespaces": ["no-namespace-matches"]}
    (request,) = requests("Secret", [body], KNOWN)
    assert "set spec.targets manually" in request.remarks[0]


@pytest.mark.parametrize(
    ("annotations", "targets"),
    [
        (
            {f"{KR}replicate-to": "team-a,prod-.*", "kubed.appscode.com/sync": ""},
            [EVERYWHERE],
        ),
        (
            {
                f"{KR}replicate-to": "team-a",
                f"{RF}reflection-allowed": "true",
                f"{RF}reflection-auto-enabled": "true",
                f"{RF}reflection-auto-namespaces": "team-b,team-a",
            },
            [{"namespaces": ["team-a", "team-b"]}],
        ),
        (
            {f"{KR}replicate-to-matching": "team=a", "kubed.appscode.com/sync": "team=a"},
            [{"selector": {"matchLabels": {"team": "a"}}}],
        ),
        (
            {
                f"{KR}replicate-to": "team-.*",
                f"{KR}replicate-to-matching": "team=a",
                "kubed.appscode.com/sync": "tier=front",
            },
            [
                {"namespaces": ["team-*"]},
                {"exclude": ["team-*"], "selector": {"matchLabels": {"team": "a"}}},
                {
                    "exclude": ["team-*"],
                    "selector": {
                        "matchLabels": {"tier": "front"},
                        "matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}],
                    },
                },
            ],
        ),
    ],
    ids=["one is everywhere", "two lists", "equal selectors", "a list and two selectors"],
)
def test_several_annotations_on_one_source_become_rules_that_share_no_name_and_no_target(
    annotations, targets
):
    found = printed(marked(**annotations))
    assert [rule["spec"]["targets"] for rule in found] == targets
    names = [rule["metadata"]["name"] for rule in found]
    assert (
        names
        == ["default-creds-secret", "default-creds-secret-2", "default-creds-secret-3"][
            : len(names)
        ]
    )


def test_what_cant_be_kept_apart_is_said():
    annotations = {f"{KR}replicate-to-matching": "a=1,b=2", "kubed.appscode.com/sync": "c=3"}
    first, second = migrations(requests("Secret", [marked(**annotations)], KNOWN))
    assert first.remarks == ()
    (remark,) = second.remarks
    assert remark.startswith("in a namespace that the rule default-creds-secret also targets, one")


def test_two_sources_whose_rules_would_have_one_name_keep_both():
    def source(namespace, name):
        body = marked(**{"kubed.appscode.com/sync": ""})
        body["metadata"] |= {"namespace": namespace, "name": name}
        return body

    bodies = [source("a-b", "c"), source("a", "b-c")]
    names = {rule["metadata"]["name"] for rule in printed(*bodies)}
    assert len(names) == 2
    assert names == {rule["metadata"]["name"] for rule in printed(*reversed(bodies))}


@pytest.mark.parametrize("kind", ["Role", "RoleBinding", "ServiceAccount"])
def test_of_other_kinds_only_kubernetes_replicators_annotations_count(kind):
    mine = marked(**{f"{KR}replicate-to": "team-a", "kubed.appscode.com/sync": ""})
    (rule,) = printed(mine, kind=kind)
    assert rule["spec"]["source"] == {"kind": kind, "namespace": "default", "name": "creds"}
    assert rule["spec"]["targets"] == {"namespaces": ["team-a"]}
    assert printed(marked(**{f"{RF}reflects": "default/creds"}), kind=kind) == []


NOW = datetime(2026, 6, 1, tzinfo=UTC)


def certificate(name: str) -> str:
    return self_signed(name, begins=NOW, ends=NOW + timedelta(days=1))


A, B, C, D, PUBLIC = map(certificate, "abcdp")


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
    body = one.manifest("copyrator")
    spec = parse_rule(body)
    assert isinstance(spec, RuleSpec), spec
    assert body["metadata"] == {"name": "cas-configmap", "namespace": "copyrator"}
    assert spec.on_conflict == "Adopt"
    assert one.spec["targets"] == EVERYWHERE
    assert {entry.namespace for entry in spec.composed_sources} == {"trust"}
    assert spec.default_cas == ("source1",)
    entries = {
        "source1": PublicCAs(read_certificates(Meter(), PUBLIC, "")),
        "source2": found("ConfigMap", "one", ca_crt=A),
        "source3": [found("Secret", "x", tls_crt=B), found("Secret", "y", tls_crt=A)],
        "source4": found("ConfigMap", "all", k=C),
    }
    assert spec.template is not None
    made = Composing(entries, NOW).render(Tree(spec.template.body), "ConfigMap", {})
    assert made["data"] == {"ca.pem": PUBLIC + A + B + C + D}
    assert made["metadata"] == {"name": "cas"}
    assert one.remarks == (
        "useDefaultCAs: the public CAs are those of Copyrator's image, or of --default-cas-file",
    )


def test_each_target_becomes_a_rule_with_its_metadata_and_namespaces():
    selector = {"matchLabels": {"team": "x"}}
    target = {
        "configMap": {"key": "a", "metadata": {"labels": {"l": "1"}, "annotations": {}}},
        "secret": {"key": "b"},
        "additionalFormats": {
            "jks": {"key": "j", "password": "it's"},
            "pkcs12": {"key": "p", "password": "x", "profile": "Modern2023"},
        },
        "namespaceSelector": selector,
    }
    config, secret = bundle_rules(bundle(SOURCES[1:2], **target), "trust")
    assert (config.replaces, secret.replaces) == ("ConfigMap trust/cas", "Secret trust/cas")
    assert config.spec["template"]["metadata"] == {"name": "cas", "labels": {"l": "1"}}
    assert list(secret.spec["template"]["stringData"]) == ["b"]
    for one, field in ((config, "binaryData"), (secret, "data")):
        spec = parse_rule(one.manifest("copyrator"))
        assert isinstance(spec, RuleSpec)
        assert spec.template is not None
        assert one.spec["targets"] == {"selector": selector}
        assert [remark.partition(",")[0] for remark in one.remarks] == [
            "the PKCS#12 trust store isn't encrypted"
        ]
        entries = {"source1": found("ConfigMap", "one", ca_crt=A)}
        made = Composing(entries, NOW).render(Tree(spec.template.body), spec.kind, {})[field]
        assert [one for *_, one in read_jks(base64.b64decode(made["j"]), "it's")] == [der(A)]
        assert [one for _, one in read_pkcs12(base64.b64decode(made["p"]), "x")] == [der(A)]


@pytest.mark.parametrize("selector", [{}, {"matchLabels": {}}, {"matchExpressions": []}], ids=str)
def test_an_empty_selector_of_namespaces_is_every_namespace(selector):
    target = {"configMap": {"key": "a"}, "namespaceSelector": selector}
    (one,) = bundle_rules(bundle(SOURCES[1:2], **target), "trust")
    assert one.spec["targets"] == EVERYWHERE
    assert isinstance(parse_rule(one.manifest("copyrator")), RuleSpec)


def test_formats_that_are_null_add_nothing():
    target = {"configMap": {"key": "a"}, "additionalFormats": {"jks": None, "pkcs12": None}}
    (one,) = bundle_rules(bundle(SOURCES[1:2], **target), "trust")
    assert "binaryData" not in one.spec["template"]


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
    (one,) = import_requests([wanted("b"), wanted("a")], exports)
    assert (one.namespace, one.name, one.namespaces) == ("infra", "token", namespaces)
    assert any("left out" in remark for remark in one.remarks) is left_out
    assert isinstance(parse_rule(one.rule("x").manifest("copyrator")), RuleSpec)


@pytest.mark.parametrize("exports", [[], [export(toNamespaces=["c"])], [export()]])
def test_what_nobody_exports_becomes_no_rule(exports):
    assert list(import_requests([wanted("a")], exports)) == []
