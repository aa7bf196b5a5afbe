"""What other tools' annotations mean as rules."""

import pytest

from copyrator.api.rule import parse_rule
from copyrator.api.rule_spec import RuleSpec
from copyrator.cli.migrate_tools import cluster_secret, wishes

KNOWN = ("default", "kube-system", "prod-1", "prod-2", "team-a", "team-b")
KR = "replicator.v1.mittwald.de/"
RF = "reflector.v1.k8s.emberstack.com/"


def rules(*bodies):
    found = [wish.rule("copyrator") for wish in wishes("Secret", bodies, KNOWN)]
    for rule in found:
        assert isinstance(parse_rule(rule), RuleSpec), parse_rule(rule)
    return [rule["spec"] for rule in found]


def marked(**annotations):
    return {"metadata": {"namespace": "default", "name": "creds", "annotations": annotations}}


SOURCE = {"kind": "Secret", "namespace": "default", "name": "creds"}


@pytest.mark.parametrize(
    ("annotations", "targets"),
    [
        ({f"{KR}replicate-to": "team-a,team-b"}, {"namespaces": ["team-a", "team-b"]}),
        ({f"{KR}replicate-to": "team-.*"}, {"namespaces": ["team-*"]}),
        ({f"{KR}replicate-to": "prod-[12]"}, {"namespaces": ["prod-1", "prod-2"]}),
        ({f"{KR}replicate-to": ".*"}, None),
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
        ({f"{RF}reflection-allowed": "true", f"{RF}reflection-auto-enabled": "true"}, None),
        ({"kubed.appscode.com/sync": ""}, None),
        ({"kubed.appscode.com/sync": "a=b"}, {"selector": {"matchLabels": {"a": "b"}}}),
    ],
    ids=str,
)
def test_a_source_that_is_pushed_becomes_one_adopting_rule(annotations, targets):
    (spec,) = rules(marked(**annotations))
    assert spec["source"] == SOURCE
    assert spec.get("targets") == targets
    assert spec["onConflict"] == "Adopt"


def test_what_a_tool_is_only_allowed_to_do_is_no_rule():
    assert rules(marked(**{f"{RF}reflection-allowed": "true"}), marked(other="x")) == []


def test_a_pattern_that_is_no_glob_is_written_out_and_the_reader_is_told():
    (wish,) = wishes("Secret", [marked(**{f"{KR}replicate-to": "prod-[12]"})], KNOWN)
    assert "prod-[12] is no glob" in wish.remarks[0]
    assert "prod-1, prod-2" in wish.remarks[0]


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
    spec = cluster_secret(body, KNOWN).rule("copyrator")["spec"]
    assert spec["source"] == SOURCE
    assert spec["targets"] == {"namespaces": ["team-*"], "exclude": ["team-b"]}
    assert spec["transform"] == {"name": "shared"}
    body["data"] = {"password": "czNjcmV0"}
    assert "make the Secret shared of it first" in cluster_secret(body, KNOWN).remarks[0]


def test_equal_names_of_kinds_make_different_rules():
    bodies = [marked(**{"kubed.appscode.com/sync": ""})]
    names = {
        wish.rule("c")["metadata"]["name"]
        for kind in ("Secret", "ConfigMap")
        for wish in wishes(kind, bodies, KNOWN)
    }
    assert names == {"default-creds-secret", "default-creds-configmap"}
