"""A Bundle is read with its defaults, and refused with a remedy."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.api.approval import ApprovalMode, ApprovalSpec
from copyrator.api.bundle import BundleDefaults, parse_bundle
from copyrator.api.bundle_spec import (
    BundleDeletionPolicy,
    BundleSpec,
    JobSpec,
    Retry,
    SecretKey,
    ValuesSource,
)
from copyrator.api.drift import DriftMode, DriftSpec
from copyrator.api.fields import InvalidSpec
from copyrator.api.globs import Globs
from copyrator.api.health import HealthMode, HealthSpec
from copyrator.api.object_refs import ValuesKind
from hostile.mangled import JSON

DEFAULTS = BundleDefaults(interval=77.0, jobs_ttl=33, werf_version="2.3")
SMALLEST = {"registry": "registry.example.com", "repo": "team/app"}


def bundle(name: str = "shop", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "prod"}, "spec": {**SMALLEST, **spec}}


def parsed(body: Any) -> BundleSpec:
    spec = parse_bundle(body, DEFAULTS)
    assert isinstance(spec, BundleSpec), spec
    return spec


def test_the_smallest_bundle_takes_the_operators_defaults() -> None:
    spec = parsed(bundle())
    assert spec == BundleSpec(
        namespace="prod",
        name="shop",
        registry="registry.example.com",
        repo="team/app",
        version="latest",
        project_namespace="prod",
        interval=77.0,
        timeout=1800.0,
        service_account="werf",
        werf_image="registry.werf.io/werf/werf:2.3",
        job=JobSpec(ttl_seconds_after_finished=33),
        retry=Retry(limit=5, backoff=30.0),
    )
    assert spec.release == "shop"
    assert spec.reference == "registry.example.com/team/app"


def test_every_field_is_read() -> None:
    job = {
        "ttlSecondsAfterFinished": 9,
        "resources": {"limits": {"cpu": 1}},
        "nodeSelector": {"a": "b"},
        "tolerations": [{"operator": "Exists"}],
        "podLabels": {"l": "v"},
        "podAnnotations": {"n": "any text"},
        "securityContext": {"runAsUser": 5},
    }
    spec = parsed(
        bundle(
            version=">=1.2 <2",
            auth="creds",
            project_namespace="shop",
            values="base",
            valuesFrom=[
                {"kind": "Secret", "name": "s"},
                {"kind": "ConfigMap", "name": "c", "optional": True},
            ],
            env={"A": "x"},
            interval="1h30m",
            suspend=True,
            serviceAccountName="deployer",
            timeout="90s",
            autoRollback=True,
            releasesHistoryMax=3,
            tagFilter="v.*",
            prerelease=True,
            insecure=True,
            skipTLSVerify=True,
            caSecret="ca",
            secretKey={"secretName": "keys", "key": "werf.key"},
            werf={"image": "r.example/werf", "version": "2-stable"},
            job=job,
            retry={"limit": 0, "backoff": "5s"},
            deletionPolicy="Orphan",
        )
    )
    assert (spec.version, spec.auth, spec.project_namespace) == (">=1.2 <2", "creds", "shop")
    assert spec.values_sources == (
        ValuesSource(ValuesKind.CONFIG_MAP, "base"),
        ValuesSource(ValuesKind.SECRET, "s"),
        ValuesSource(ValuesKind.CONFIG_MAP, "c", optional=True),
    )
    assert (spec.interval, spec.timeout) == (5400.0, 90.0)
    assert (spec.suspend, spec.auto_rollback, spec.prerelease) == (True, True, True)
    assert (spec.insecure, spec.skip_tls_verify, spec.ca_secret) == (True, True, "ca")
    assert spec.secret_key == SecretKey("keys", "werf.key")
    assert (spec.service_account, spec.releases_history_max) == ("deployer", 3)
    assert spec.tag_filter == "v.*"
    assert spec.werf_image == "r.example/werf:2-stable"
    assert spec.job == JobSpec(
        ttl_seconds_after_finished=9,
        resources=job["resources"],  # type: ignore[arg-type]
        node_selector={"a": "b"},
        tolerations=({"operator": "Exists"},),
        pod_labels={"l": "v"},
        pod_annotations={"n": "any text"},
        security_context={"runAsUser": 5},
    )
    assert spec.retry == Retry(limit=0, backoff=5.0)
    assert spec.deletion_policy is BundleDeletionPolicy.ORPHAN


ENV = [
    ("text", "text"),
    ("", ""),
    (None, ""),
    (1, "1"),
    (-7, "-7"),
    (1.5, "1.5"),
    (True, "true"),
    (False, "false"),
]


@pytest.mark.parametrize(("value", "text"), ENV)
def test_numbers_and_booleans_in_env_become_strings(value: Any, text: str) -> None:
    assert parsed(bundle(env={"X": value})).env == {"X": text}


@pytest.mark.parametrize("name", ["my-var", "a.b", "_", "-x", ".hidden", "A1"])
def test_env_takes_every_name_that_kubernetes_takes(name: str) -> None:
    assert parsed(bundle(env={name: "x"})).env == {name: "x"}


@pytest.mark.parametrize(
    "name", ["WERF_REPO", "WERF_TAG", "WERF_RELEASE", "WERF_NAMESPACE", "WERF_VALUES_OPERATOR_000"]
)
def test_env_cannot_replace_what_the_operator_sets_and_says_so(name: str) -> None:
    spec = parsed(bundle(env={name: "evil", "MINE": "x"}))
    assert spec.env == {"MINE": "x"}
    assert spec.ignored_env == (name,)


IMAGES = [
    ({}, "registry.werf.io/werf/werf:2.3"),
    ({"version": "2.67.0"}, "registry.werf.io/werf/werf:2.67.0"),
    ({"image": "r:5000/werf"}, "r:5000/werf:2.3"),
    ({"image": "r:5000/werf:9"}, "r:5000/werf:9"),
    ({"image": "werf@sha256:" + "0" * 64}, "werf@sha256:" + "0" * 64),
]


@pytest.mark.parametrize(("werf", "image"), IMAGES)
def test_the_werf_image_is_put_together(werf: dict[str, str], image: str) -> None:
    assert parsed(bundle(werf=werf)).werf_image == image


@pytest.mark.parametrize(
    "registry", ["localhost", "127.0.0.1:5000", "[::1]:5000", "Registry.example.com:443"]
)
def test_a_registry_is_a_host_and_perhaps_a_port(registry: str) -> None:
    assert parsed(bundle(registry=registry)).registry == registry


@pytest.mark.parametrize("version", ["latest", "1.2.3", "v1.*", "*", "~1.2", "1.2 - 1.4 || 2.x"])
def test_a_version_is_kept_for_the_version_engine_to_judge(version: str) -> None:
    assert parsed(bundle(version=version)).version == version


def without(field: str) -> dict[str, Any]:
    body = bundle()
    del body["spec"][field]
    return body


INVALID: list[tuple[Any, str, str]] = [
    (None, "metadata.namespace", "is required"),
    ([], "the object", "must be a map"),
    (bundle(name="x" * 54), "metadata.name", "at most 53"),
    (without("registry"), "spec.registry", "is required"),
    (without("repo"), "spec.repo", "is required"),
    ({"metadata": {"name": "a", "namespace": "b"}, "spec": 1}, "spec", "must be a map"),
    (bundle(registry="https://r.example"), "spec.registry", "remove https://"),
    (bundle(registry="http://r.example"), "spec.registry", "for plain HTTP set spec.insecure"),
    (bundle(registry="r.example/team"), "spec.registry", "put the path into spec.repo"),
    (bundle(registry="r example"), "spec.registry", "isn't a valid host[:port]"),
    (bundle(registry="r:port"), "spec.registry", "isn't a valid host[:port]"),
    (bundle(registry="r\n"), "spec.registry", "isn't a valid host[:port]"),
    (bundle(registry=5), "spec.registry", "must be a string"),
    (bundle(repo="app:1.0"), "spec.repo", "put the tag into spec.version"),
    (bundle(repo="app@sha256:1"), "spec.repo", "must not contain a digest"),
    (bundle(repo="/app"), "spec.repo", "isn't a valid repository path"),
    (bundle(repo="Team/app"), "spec.repo", "isn't a valid repository path"),
    (bundle(repo="a//b"), "spec.repo", "isn't a valid repository path"),
    (bundle(version=" "), "spec.version", "must be a tag"),
    (bundle(version=">=1.2 <"), "spec.version", "a version is missing after '<'"),
    (bundle(version="1.*.3"), "spec.version", "a number after its wildcard"),
    (bundle(version="feature/x"), "spec.version", "isn't a valid tag"),
    (bundle(version=1.2), "spec.version", 'write it in quotes: "1.2"'),
    (bundle(version="sha256:" + "0" * 64), "spec.version", "not a digest"),
    (bundle(auth="No"), "spec.auth", "isn't a valid object name"),
    (bundle(values="a/b"), "spec.values", "isn't a valid object name"),
    (bundle(project_namespace="a.b"), "spec.project_namespace", "isn't a valid namespace name"),
    (bundle(env={"1A": "x"}), "spec.env", "isn't a valid name for an environment variable"),
    (bundle(env={"A B": "x"}), "spec.env", "isn't a valid name for an environment variable"),
    (bundle(env={".": "x"}), "spec.env", "isn't a valid name for an environment variable"),
    (bundle(env={"..a": "x"}), "spec.env", "isn't a valid name for an environment variable"),
    (bundle(env={"A": []}), "spec.env[A]", "must be a string, number or boolean"),
    (bundle(env={"A": 10**5000}), "spec.env[A]", "write it in quotes"),
    (bundle(version=10**5000), "spec.version", "must be a string"),
    (bundle(retry={"limit": 10**5000}), "spec.retry.limit", "must be between 0 and 1000"),
    (bundle(env={"A": "x\0"}), "spec.env[A]", "NUL"),
    (bundle(env=["A=1"]), "spec.env", "must be a map"),
    (bundle(interval="9s"), "spec.interval", "must be between 10s and 720h"),
    (bundle(interval="ten"), "spec.interval", "write it with a unit"),
    (bundle(interval=600), "spec.interval", "must be a duration, not a number"),
    (bundle(timeout="0s"), "spec.timeout", "must be between 1s"),
    (bundle(timeout="721h"), "spec.timeout", "must be between 1s and 720h"),
    (bundle(retry={"backoff": "x"}), "spec.retry.backoff", "isn't a valid duration"),
    (bundle(approval={"mode": "Sometimes"}), "spec.approval.mode", "Never, OnRisk, Always"),
    (
        bundle(approval={"mode": "Always", "expires": "59s"}),
        "spec.approval.expires",
        "must be between 1m and 720h",
    ),
    (bundle(health="On"), "spec.health", "Off, Watch"),
    (bundle(health={}), "spec.health", "must be"),
    (bundle(health="Watch", kubeConfig={"secretName": "c"}), "spec.health", "remove spec.health"),
    (bundle(kubeConfig={}), "spec.kubeConfig.secretName", "is required"),
    (bundle(kubeConfig={"secretName": "c", "key": "/"}), "spec.kubeConfig.key", ""),
    (bundle(kubeConfig="c"), "spec.kubeConfig", "must be a map"),
    (bundle(drift={"mode": "Fix"}), "spec.drift.mode", "Off, Detect, Correct"),
    (bundle(drift={"interval": "14m"}), "spec.drift.interval", "must be between 15m and 720h"),
    (bundle(drift={"interval": "721h"}), "spec.drift.interval", "must be between 15m and 720h"),
    (bundle(drift={"ignore": [{"name": "web"}]}), "spec.drift.ignore[0].kind", "required"),
    (bundle(drift={"ignore": [{"kind": "K"}] * 51}), "spec.drift.ignore", "at most 50 are allowed"),
    (
        bundle(drift={"ignore": [{"kind": "K", "name": "n" * 254}]}),
        "spec.drift.ignore[0].name",
        "at most 253 characters",
    ),
    (bundle(retry={"limit": -1}), "spec.retry.limit", "must be between 0 and 1000"),
    (bundle(releasesHistoryMax=0), "spec.releasesHistoryMax", "must be between 1"),
    (
        bundle(tagFilter="("),
        "spec.tagFilter",
        "isn't a valid regular expression for tags: missing ): (",
    ),
    (bundle(tagFilter="a" * 257), "spec.tagFilter", "at most 256"),
    (bundle(valuesFrom=[{"name": "x"}]), "spec.valuesFrom[0].kind", "is required"),
    (bundle(valuesFrom=[{"kind": "Pod", "name": "x"}]), "spec.valuesFrom[0].kind", "one of"),
    (bundle(valuesFrom=[{"kind": "Secret"}]), "spec.valuesFrom[0].name", "is required"),
    (bundle(valuesFrom=["x"]), "spec.valuesFrom[0]", "must be a map"),
    (bundle(werf={"image": "w:1", "version": "2"}), "spec.werf.version", "must be removed"),
    (bundle(werf={"image": "https://w"}), "spec.werf.image", "isn't a valid image"),
    (bundle(werf={"version": "a b"}), "spec.werf.version", "isn't a valid image tag"),
    (bundle(job={"tolerations": ["x"]}), "spec.job.tolerations[0]", "must be a map"),
    (bundle(job={"podLabels": {"a": "b c"}}), "spec.job.podLabels[a]", "isn't a valid label value"),
    (
        bundle(job={"podLabels": {"operator.werf.dev/bundle": "other"}}),
        "spec.job.podLabels[operator.werf.dev/bundle]",
        "is set by the operator",
    ),
    (bundle(job={"ttlSecondsAfterFinished": -1}), "spec.job.ttlSecondsAfterFinished", "between 0"),
    (bundle(deletionPolicy="Delete"), "spec.deletionPolicy", "one of Uninstall, Orphan"),
    (bundle(insecure="yes"), "spec.insecure", "true or false without quotes"),
]


@pytest.mark.parametrize(
    ("body", "path", "message"), INVALID, ids=[f"{path}: {message}" for _, path, message in INVALID]
)
def test_what_cannot_be_meant_is_refused_with_the_field_and_a_remedy(
    body: Any, path: str, message: str
) -> None:
    answer = parse_bundle(body, DEFAULTS)
    assert isinstance(answer, InvalidSpec), answer
    assert answer.path == path
    assert message in answer.message


FIELDS = st.sampled_from(
    [
        "registry",
        "repo",
        "version",
        "auth",
        "project_namespace",
        "values",
        "env",
        "interval",
        "suspend",
        "timeout",
        "serviceAccountName",
        "autoRollback",
        "releasesHistoryMax",
        "valuesFrom",
        "tagFilter",
        "prerelease",
        "insecure",
        "skipTLSVerify",
        "caSecret",
        "secretKey",
        "secretName",
        "key",
        "werf",
        "image",
        "job",
        "resources",
        "tolerations",
        "podLabels",
        "retry",
        "limit",
        "backoff",
        "deletionPolicy",
        "kind",
        "name",
        "optional",
    ]
)


@given(JSON, st.dictionaries(FIELDS, JSON, max_size=8))
def test_reading_never_raises_whatever_the_json(body: Any, spec: Any) -> None:
    assert isinstance(parse_bundle(body, DEFAULTS), (BundleSpec, InvalidSpec))
    assert isinstance(parse_bundle(bundle(**spec), DEFAULTS), (BundleSpec, InvalidSpec))


@pytest.mark.parametrize(
    ("asked", "namespace", "release", "mode"),
    [
        (None, "prod", None, ApprovalMode.ALWAYS),
        ("OnRisk", "prod", None, ApprovalMode.ALWAYS),
        ("Always", "test-1", None, ApprovalMode.ALWAYS),
        ("Never", "test-1", None, ApprovalMode.ON_RISK),
        ("OnRisk", "dev", None, ApprovalMode.ON_RISK),
        (None, "dev", None, ApprovalMode.NEVER),
        ("Never", "dev", "prod", ApprovalMode.ALWAYS),
        ("Never", "test-1", "prod", ApprovalMode.ALWAYS),
        ("Never", "prod", "dev", ApprovalMode.ALWAYS),
        ("Never", "dev", "dev-2", ApprovalMode.NEVER),
    ],
)
def test_no_bundle_goes_below_what_the_settings_require_for_its_namespace_and_its_releases(
    asked: str | None, namespace: str, release: str | None, mode: ApprovalMode
) -> None:
    floors = (
        (Globs(("p*", "test-*")), ApprovalMode.ON_RISK),
        (Globs(("prod",)), ApprovalMode.ALWAYS),
    )
    body = bundle(**({"approval": {"mode": asked}} if asked else {}), project_namespace=release)
    body["metadata"]["namespace"] = namespace
    spec = parse_bundle(body, BundleDefaults(require_approval=floors))
    assert isinstance(spec, BundleSpec)
    is_required = {namespace, release} & {"prod", "test-1"} != set()
    assert spec.part(ApprovalSpec) == ApprovalSpec(
        mode=mode, expires=86400.0, is_required=is_required
    )


def test_health_is_off_unless_it_is_asked_for() -> None:
    for asked, mode in (({}, HealthMode.OFF), ({"health": "Watch"}, HealthMode.WATCH)):
        spec = parse_bundle(bundle(**asked), DEFAULTS)
        assert isinstance(spec, BundleSpec)
        assert spec.part(HealthSpec).health is mode


def test_drift_is_off_unless_it_is_asked_for_and_ignores_by_kind_and_name() -> None:
    spec = parse_bundle(bundle(), DEFAULTS)
    assert isinstance(spec, BundleSpec)
    assert spec.part(DriftSpec) == DriftSpec()
    assert not spec.uses(DriftSpec)
    ignore = [{"kind": "Deployment", "name": "web-*"}, {"kind": "Secret"}]
    drift = {"mode": "Correct", "interval": "15m", "ignore": ignore}
    spec = parse_bundle(bundle(drift=drift), DEFAULTS)
    assert isinstance(spec, BundleSpec)
    assert (spec.part(DriftSpec).mode, spec.part(DriftSpec).interval) == (DriftMode.CORRECT, 900.0)
    (first, second) = spec.part(DriftSpec).ignore
    assert (first.kind, first.names.matches("web-1"), first.names.matches("api")) == (
        "Deployment",
        True,
        False,
    )
    assert second.names.matches("anything")
