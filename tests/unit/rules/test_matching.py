import pytest

from copyrator.api import names
from copyrator.rules.matching import namespace_accepts, refusal, source_allows


def body(name="x", **fields):
    return {"metadata": {"name": name, **fields.pop("metadata", {})}, **fields}


COPY = {
    "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY},
    "annotations": {names.ANN_RULE: "a/b"},
}


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("Secret", body(type="kubernetes.io/service-account-token")),
        ("Secret", body(type="helm.sh/release.v1")),
        ("ConfigMap", body("kube-root-ca.crt")),
        ("ConfigMap", body(metadata=COPY)),
        ("Secret", body(metadata={"labels": {"copyrator.flant.com/hash-key": "true"}})),
    ],
)
def test_some_objects_are_never_copied(kind, found):
    assert refusal(kind, found)


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("Secret", body(type="Opaque")),
        ("Secret", body(type="kubernetes.io/dockerconfigjson")),
        ("Secret", body("kube-root-ca.crt", type="Opaque")),
        ("ConfigMap", body("kube-root-ca.crt.old")),
        ("ConfigMap", body(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})),
    ],
)
def test_all_others_are(kind, found):
    assert refusal(kind, found) is None


@pytest.mark.parametrize(
    ("annotation", "target", "expected"),
    [
        (None, "team-a", True),
        ("team-*", "team-a", True),
        ("ops, team-*", "ops", True),
        ("team-*", "other-team-a", False),
        ("", "team-a", False),
    ],
)
def test_a_source_limits_where_it_goes(annotation, target, expected):
    annotations = {} if annotation is None else {names.ANN_ALLOW_TO: annotation}
    assert source_allows(annotations, target) is expected


@pytest.mark.parametrize(
    ("annotation", "tenant", "expected"),
    [
        (None, "ns1", False),
        ("ns1,team-*", "ns1", True),
        ("ns1,team-*", "team-b", True),
        ("", "", False),
    ],
)
def test_a_namespace_accepts_only_the_tenants_that_it_names(annotation, tenant, expected):
    annotations = {} if annotation is None else {names.ANN_ALLOW_FROM: annotation}
    assert namespace_accepts(annotations, tenant) is expected
