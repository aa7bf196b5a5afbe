"""What the operator's settings let a Bundle name."""

from typing import Any

import pytest
from tests.replacing import replace

from copyrator.api.bundle_spec import BundleSpec, SecretKey, ValuesSource
from copyrator.api.object_refs import LocalObjectRef, ValuesKind
from copyrator.api.schema import InvalidSpec
from copyrator.api.verify import Cosign, VerifyEntry
from copyrator.bundles.features.attest.fields import AttestKey, AttestSpec
from copyrator.bundles.features.promotion.fields import (
    AttestationsFrom,
    EvidenceKeys,
    PromotionSpec,
)
from copyrator.bundles.features.signatures.fields import SignaturesSpec
from copyrator.bundles.jobs.restrictions import image_repository, refusal

SPEC = BundleSpec(namespace="n", name="b", registry="r", repo="app", project_namespace="n")
IMAGES = ("registry.werf.io/werf/werf",)


@pytest.mark.parametrize(
    ("image", "repository"),
    [
        ("werf", "werf"),
        ("werf:1", "werf"),
        ("r:5000/a/werf", "r:5000/a/werf"),
        ("r:5000/a/werf:1", "r:5000/a/werf"),
        ("r/a/werf@sha256:ab", "r/a/werf"),
        ("r:5000/a/werf:1@sha256:ab", "r:5000/a/werf"),
        ("r/a/werf:1:2@sha256:ab@sha256:cd", "r/a/werf"),
    ],
)
def test_reads_the_repository_of_an_image(image: str, repository: str) -> None:
    assert image_repository(image) == repository


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({}, None),
        ({"werf_image": "registry.werf.io/werf/werf:2.1"}, None),
        ({"service_account": "default"}, "spec.serviceAccountName"),
        ({"werf_image": "registry.werf.io/werf/werf-evil:1"}, "spec.werf.image"),
        ({"werf_image": "registry.werf.io/werf"}, "spec.werf.image"),
        ({"werf_image": "evil.io/registry.werf.io/werf/werf"}, "spec.werf.image"),
    ],
)
def test_refuses_what_is_not_allowed(changes: dict[str, str], path: str | None) -> None:
    refused = refusal(replace(SPEC, **changes), ("werf",), IMAGES, ("*",))

    assert (refused and refused.path) == path


SECRET_VALUES = ValuesSource(ValuesKind.SECRET, "values")


def _keys_from(kind: ValuesKind) -> PromotionSpec:
    attestations = AttestationsFrom("staging", EvidenceKeys(LocalObjectRef("keys", kind)))
    return PromotionSpec(attestations=(attestations,))


def _signed_by(kind: ValuesKind) -> SignaturesSpec:
    return SignaturesSpec((VerifyEntry(cosign=Cosign(LocalObjectRef("keys", kind))),))


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"auth": "creds"}, "spec.auth"),
        ({"ca_secret": "ca"}, "spec.caSecret"),
        ({"secret_key": SecretKey("keys", "k")}, "spec.secretKey"),
        ({"parts": (AttestSpec("staging", AttestKey("keys", "k")),)}, "spec.attest.keyFrom"),
        (
            {"parts": (AttestSpec("staging", AttestKey(operator=True), auth="creds"),)},
            "spec.attest.auth",
        ),
        ({"parts": (AttestSpec("staging", AttestKey(operator=True)),)}, None),
        ({"values_from": (SECRET_VALUES,)}, "spec.valuesFrom"),
        ({"values_from": (ValuesSource(ValuesKind.CONFIG_MAP, "values"),)}, None),
        ({"parts": (_signed_by(ValuesKind.SECRET),)}, "spec.verify"),
        ({"parts": (_signed_by(ValuesKind.CONFIG_MAP),)}, None),
        ({"parts": (_keys_from(ValuesKind.SECRET),)}, "spec.promoteFrom.attestations"),
        ({"parts": (_keys_from(ValuesKind.CONFIG_MAP),)}, None),
        ({"auth": "mine", "ca_secret": "mine", "secret_key": SecretKey("mine", "k")}, None),
    ],
)
@pytest.mark.parametrize("secrets", [(), ("mine",)])
def test_refuses_secrets_that_the_operator_may_not_read(
    changes: dict[str, Any], path: str | None, secrets: tuple[str, ...]
) -> None:
    if changes.get("auth") == "mine" and not secrets:
        path = "spec.auth"
    refused = refusal(replace(SPEC, **changes), ("werf",), IMAGES, secrets)

    assert (refused and refused.path) == path


def test_a_star_allows_every_secret() -> None:
    spec = replace(SPEC, auth="creds", ca_secret="ca", values_from=(SECRET_VALUES,))

    assert refusal(spec, ("werf",), IMAGES, ("*",)) is None


TO_ASK = "or ask an administrator to add it to bundles"


@pytest.mark.parametrize(
    ("changes", "secrets", "found"),
    [
        (
            {"service_account": "default"},
            (),
            (
                "spec.serviceAccountName",
                (
                    f"default isn't allowed; use one of a, werf, {TO_ASK}.allowedServiceAccounts "
                    "of the chart"
                ),
            ),
        ),
        (
            {"werf_image": "evil:1"},
            (),
            (
                "spec.werf.image",
                f"evil isn't allowed; use one of {IMAGES[0]}, {TO_ASK}.allowedImages of the chart",
            ),
        ),
        (
            {"auth": "creds"},
            (),
            (
                "spec.auth",
                (
                    "the Secret creds isn't allowed; use one of (none), "
                    f"{TO_ASK}.allowedSecrets of the chart"
                ),
            ),
        ),
        (
            {"auth": "y", "ca_secret": "creds"},
            ("y", "x"),
            (
                "spec.caSecret",
                (
                    "the Secret creds isn't allowed; use one of x, y, "
                    f"{TO_ASK}.allowedSecrets of the chart"
                ),
            ),
        ),
    ],
)
def test_a_refusal_names_what_is_allowed_and_who_can_change_it(
    changes: dict[str, Any], secrets: tuple[str, ...], found: tuple[str, str]
) -> None:
    spec = replace(SPEC, **{"service_account": "werf", **changes})

    assert refusal(spec, ("werf", "a"), IMAGES, secrets) == InvalidSpec(*found)
