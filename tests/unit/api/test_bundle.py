"""A Bundle is read with its defaults."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.bundles import bundle, parsed
from tests.unit.api.test_crd_fields import BUNDLE, field_names

from copyrator.api.bundle_spec import (
    BundleDeletionPolicy,
    BundleSpec,
    JobSpec,
    Retry,
    SecretKey,
    ValuesSource,
)
from copyrator.api.object_refs import ValuesKind
from copyrator.api.schema import InvalidSpec
from copyrator.bundles.fields import BundleDefaults, parse_bundle
from hostile.mangled import JSON

DEFAULTS = BundleDefaults(interval=77.0, jobs_ttl=33, werf_version="2.3", proxies={"NO_PROXY": "x"})


def read(body: Any) -> BundleSpec:
    return parsed(body, DEFAULTS)


def test_the_smallest_bundle_takes_the_operators_defaults() -> None:
    spec = read(bundle())
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
        proxies={"NO_PROXY": "x"},
        job=JobSpec(ttl_seconds_after_finished=33),
        retry=Retry(limit=5, backoff=30.0),
    )
    assert spec.release == "shop"
    assert spec.reference == "registry.example.com/team/app"
    assert read(bundle(job={"podLabels": {"a": "b"}})).job.ttl_seconds_after_finished == 33


def test_fields_with_names_or_values_of_their_own_are_read() -> None:
    job = {
        "ttlSecondsAfterFinished": 9,
        "resources": {"limits": {"cpu": 1}},
        "nodeSelector": {"a": "b"},
        "tolerations": [{"operator": "Exists"}],
        "podLabels": {"l": "v"},
        "podAnnotations": {"n": "any text"},
        "securityContext": {"runAsUser": 5},
    }
    spec = read(
        bundle(
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
            prerelease=True,
            skipTLSVerify=True,
            secretKey={"secretName": "keys", "key": "werf.key"},
            werf={"image": "r.example/werf", "version": "2-stable"},
            job=job,
            retry={"limit": 0, "backoff": "5s"},
            deletionPolicy="Orphan",
        )
    )
    assert spec.values_sources == (
        ValuesSource(ValuesKind.CONFIG_MAP, "base"),
        ValuesSource(ValuesKind.SECRET, "s"),
        ValuesSource(ValuesKind.CONFIG_MAP, "c", optional=True),
    )
    assert (spec.interval, spec.timeout) == (5400.0, 90.0)
    assert (spec.suspend, spec.auto_rollback, spec.prerelease) == (True, True, True)
    assert spec.secret_key == SecretKey("keys", "werf.key")
    assert (spec.service_account, spec.skip_tls_verify) == ("deployer", True)
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
    assert read(bundle(env={"X": value})).env == {"X": text}


@pytest.mark.parametrize(
    "name", ["WERF_REPO", "WERF_TAG", "WERF_RELEASE", "WERF_NAMESPACE", "WERF_VALUES_OPERATOR_000"]
)
def test_env_cannot_replace_what_the_operator_sets_and_says_so(name: str) -> None:
    spec = read(bundle(env={name: "evil", "MINE": "x"}))
    assert spec.env == {"MINE": "x"}
    assert spec.ignored_env == (name,)


IMAGES = [
    ({}, "registry.werf.io/werf/werf:2.3"),
    ({"version": "2.67.0"}, "registry.werf.io/werf/werf:2.67.0"),
    ({"image": "r:5000/werf"}, "r:5000/werf:2.3"),
    ({"image": "r:5000/werf:9"}, "r:5000/werf:9"),
    ({"image": "werf@sha256"}, "werf@sha256"),
    ({"image": "werf@sha256:" + "0" * 64}, "werf@sha256:" + "0" * 64),
]


@pytest.mark.parametrize(("werf", "image"), IMAGES)
def test_the_werf_image_is_put_together(werf: dict[str, str], image: str) -> None:
    assert read(bundle(werf=werf)).werf_image == image


INVALID: list[tuple[Any, str, str]] = [
    (None, "metadata.namespace", "is required"),
    ([], "the object", "must be a map"),
    (bundle(env={"A": 10**5000}), "spec.env.A", "write it in quotes"),
    (bundle(version=10**5000), "spec.version", "must be a string"),
    (bundle(retry={"limit": 10**5000}), "spec.retry.limit", "must be between 0 and 1000"),
]
"""Such that no API server stores; the others are in the table of specs."""


@pytest.mark.parametrize(
    ("body", "path", "message"), INVALID, ids=[f"{path}: {message}" for _, path, message in INVALID]
)
def test_what_no_api_server_stores_is_refused(body: Any, path: str, message: str) -> None:
    answer = parse_bundle(body, DEFAULTS)
    assert isinstance(answer, InvalidSpec), answer
    assert answer.path == path
    assert message in answer.message


FIELDS = st.sampled_from(field_names(BUNDLE))


@given(JSON, st.dictionaries(FIELDS, JSON, max_size=8))
def test_reading_never_raises_whatever_the_json(body: Any, spec: Any) -> None:
    assert isinstance(parse_bundle(body, DEFAULTS), (BundleSpec, InvalidSpec))
    assert isinstance(parse_bundle(bundle(**spec), DEFAULTS), (BundleSpec, InvalidSpec))
