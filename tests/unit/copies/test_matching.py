import pytest
from tests.steps import assert_quick

from copyrator.api import names
from copyrator.api.schema import NOT_WHOLE
from copyrator.api.selectors import MAX_CONSENT_TEXT, MAX_GLOB_TEXT, MAX_GLOBS, read_consent
from copyrator.copies.sources.records import SourceReader, refusal
from copyrator.copies.targets.namespaces import Namespace


def body(name="x", **fields):
    return {"metadata": {"name": name, **fields.pop("metadata", {})}, **fields}


def source(annotations):
    metadata = {"name": "x", "resourceVersion": "1", "annotations": annotations}
    return SourceReader("v1", "Secret")({"metadata": metadata})


COPY = {
    "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY},
    "annotations": {names.ANN_RULE: "a/b"},
}


HASH_KEY = {"labels": {"copyrator.flant.com/hash-key": "true"}}


@pytest.mark.parametrize(
    ("kind", "found", "why"),
    [
        ("Secret", body(type="kubernetes.io/service-account-token"), "it is a service account's"),
        ("Secret", body(type="helm.sh/release.v1"), "it is a Helm release"),
        ("ConfigMap", body("kube-root-ca.crt"), "it exists in every namespace"),
        ("ConfigMap", body(metadata=COPY), "it is a copy"),
        ("Secret", body(metadata=HASH_KEY), "it is the operator's"),
    ],
)
def test_some_objects_are_never_copied(kind, found, why):
    assert refusal(kind, found).startswith(why)


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
        (" ops, team-* ,,", "ops", True),
        ("team-*", "other-team-a", False),
        ("", "team-a", False),
        ("  ", "", False),
    ],
)
def test_a_source_limits_where_it_goes(annotation, target, expected):
    annotations = {} if annotation is None else {names.ANN_ALLOW_TO: annotation}
    assert source(annotations).allows(target) is expected


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
    assert Namespace("team", annotations=annotations).accepts(tenant) is expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (",".join(f"team-{number}-*" for number in range(MAX_GLOBS + 1)), "1001 patterns"),
        (",".join("x" * 200 + f"{number}*" for number in range(400)), "65536 characters"),
        ("x" * (MAX_CONSENT_TEXT + 1), "longer than"),
    ],
)
def test_an_annotation_over_its_limits_allows_nothing_and_says_why(text, problem):
    found = source({names.ANN_ALLOW_TO: text})
    assert problem in found.consent.problem
    assert not found.allows("team-1-x")


def test_names_are_limited_by_the_annotations_size_alone():
    text = ",".join(f"team-{number}" for number in range(20_000))
    found = source({names.ANN_ALLOW_TO: text})
    assert found.consent.problem is None
    assert found.allows("team-19999")
    assert not found.allows("team-20000")


HOSTILE = {
    "stars": ",".join(("*a" * 31)[:60] + str(number) for number in range(MAX_GLOBS)),
    "marks": ",".join("?*" * 30 + str(number) for number in range(MAX_GLOBS)),
    "names": ",".join("a" for _ in range(MAX_CONSENT_TEXT // 2)),
    "short names": ",".join(format(number, "x") for number in range(40_000)),
    "too many": ",".join("*" for _ in range(MAX_CONSENT_TEXT // 2)),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_whatever_an_annotation_says_it_is_read_in_one_step_and_only_once(text):
    found = source({names.ANN_ALLOW_TO: text})

    assert_quick(lambda: read_consent(found.annotations, names.ANN_ALLOW_TO), 0.05, 5)
    found.allows("team")
    consent = found.consent
    assert_quick(lambda: found.allows("a" * 63), 0.001, 20)
    assert found.consent is consent


def test_an_object_that_was_not_read_whole_is_refused_with_its_reason():
    assert refusal("Secret", body(metadata={NOT_WHOLE: "it is nested too deeply"})) == (
        "it is nested too deeply"
    )


def test_a_consent_of_the_greatest_size_is_read():
    def consent(text):
        return read_consent({"a": text}, "a")

    assert consent("x" * MAX_CONSENT_TEXT).problem is None
    assert "is longer than" in consent("x" * (MAX_CONSENT_TEXT + 1)).problem
    patterns = [f"{n:04}*" for n in range(MAX_GLOBS + 1)]
    assert consent(",".join(patterns[1:])).problem is None
    assert f"has {MAX_GLOBS + 1} patterns" in consent(",".join(patterns)).problem
    half = "y" * (MAX_GLOB_TEXT // 2 - 1)
    if 2 * MAX_GLOB_TEXT < MAX_CONSENT_TEXT:
        assert consent(f"*{half},{half}*").problem is None
        assert "more than" in consent(f"*{half},y{half}*").problem
