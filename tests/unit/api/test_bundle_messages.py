"""What the parser of Bundles says, word for word, and where its limits are."""

from __future__ import annotations

from typing import Any

import pytest

from copyrator.api.bundle import BundleDefaults, parse_bundle
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.fields import InvalidSpec


def parsed(**spec: Any) -> BundleSpec | InvalidSpec:
    body = {
        "metadata": {"namespace": "team", "name": "shop"},
        "spec": {"registry": "r.example", "repo": "app", **spec},
    }
    return parse_bundle(body, BundleDefaults())


DIGEST = (
    "spec.version: must be a tag, wildcard or range, not a digest; the operator resolves the digest"
)


REF = {"kind": "Secret", "name": "keys"}
NAMES = [{"name": f"b{number}"} for number in range(20)]


ALWAYS_OPEN = (
    "spec.windows[0].days: is required, or from or to: without them it would always be open"
)
NO_MODE = "is required: one of Never, OnRisk, Always"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"version": "sha256:ab"}, DIGEST),
        ({"version": "1.0.0@sha256:ab"}, DIGEST),
        (
            {"env": {"A": 2**64}},
            (
                "spec.env[A]: must be a string, number or boolean, not a number that large; "
                "write it in quotes"
            ),
        ),
        ({"env": {"A": []}}, "spec.env[A]: must be a string, number or boolean, not a list"),
        ({"env": {"A": "a\0b"}}, "spec.env[A]: must not contain a NUL character"),
        (
            {"job": {"podLabels": {"operator.werf.dev/bundle": "x"}}},
            "spec.job.podLabels[operator.werf.dev/bundle]: is set by the operator; remove it",
        ),
        (
            {"job": {"podLabels": {"-": "x"}}},
            (
                "spec.job.podLabels: '-' isn't a valid label key; use at most 63 letters, digits, "
                "'-', '_' and '.', beginning and ending with a letter or digit"
            ),
        ),
        (
            {"registry": "https://r.example"},
            "spec.registry: must be host[:port] without a scheme: remove https://",
        ),
        (
            {"registry": "http://r.example://x"},
            (
                "spec.registry: must be host[:port] without a scheme: remove http://; "
                "for plain HTTP set spec.insecure"
            ),
        ),
        (
            {"registry": "r.example/app"},
            "spec.registry: must be host[:port] without a path: put the path into spec.repo",
        ),
        (
            {"repo": "app@sha256:ab"},
            (
                "spec.repo: must not contain a digest: put a tag, wildcard or range into "
                "spec.version"
            ),
        ),
        (
            {"repo": "app:1"},
            "spec.repo: must not contain a tag or scheme: put the tag into spec.version",
        ),
        (
            {"repo": "/app"},
            (
                "spec.repo: '/app' isn't a valid repository path; use lower-case words separated "
                "by '/', without a leading or trailing '/', for example team/app"
            ),
        ),
        (
            {"interval": 5},
            (
                "spec.interval: must be a duration, not a number; write it with a unit, "
                "for example 30s, 5m or 1h30m"
            ),
        ),
        (
            {"interval": "5"},
            (
                "spec.interval: '5' isn't a valid duration; write it with a unit, "
                "for example 30s, 5m or 1h30m"
            ),
        ),
        (
            {"valuesFrom": [{"name": "a"}]},
            "spec.valuesFrom[0].kind: is required: ConfigMap or Secret",
        ),
        (
            {"werf": {"image": "werf@sha256:ab", "version": "2"}},
            ("spec.werf.version: must be removed: spec.werf.image already names a tag or digest"),
        ),
        (
            {"minAge": "721h"},
            "spec.minAge: must be between 1s and 720h",
        ),
        (
            {"approval": {"mode": "Always", "expires": "59s"}},
            "spec.approval.expires: must be between 1m and 720h",
        ),
        (
            {"drift": {"interval": "14m"}},
            "spec.drift.interval: must be between 15m and 720h",
        ),
        ({"drift": {"ignore": [{}]}}, "spec.drift.ignore[0].kind: is required"),
        (
            {"drift": {"ignore": [{"kind": "Pod"}] * 51}},
            "spec.drift.ignore: has 51 items; at most 50 are allowed",
        ),
        (
            {"drift": {"ignore": [{"kind": "Pod", "name": "x" * 254}]}},
            "spec.drift.ignore[0].name: must have at most 253 characters",
        ),
        (
            {"dependsOn": [{"name": "shop"}]},
            "spec.dependsOn[0].name: is this Bundle itself; remove the item",
        ),
        (
            {"dependsOn": [{"name": f"b{number}"} for number in range(21)]},
            "spec.dependsOn: has 21 items; at most 20 are allowed",
        ),
        (
            {"promoteFrom": {}},
            (
                "spec.promoteFrom.bundles: is required, or attestations: name where a version must "
                "have stood"
            ),
        ),
        (
            {"promoteFrom": {"bundles": [{"name": "a"}, {"name": "shop"}]}},
            "spec.promoteFrom.bundles[1].name: is this Bundle itself; remove the item",
        ),
        (
            {"promoteFrom": {"bundles": [{"name": f"b{number}"} for number in range(21)]}},
            "spec.promoteFrom.bundles: has 21 items; at most 20 are allowed",
        ),
        (
            {
                "promoteFrom": {
                    "attestations": [
                        {
                            "environment": name,
                            "cosign": {"keysFrom": {"kind": "ConfigMap", "name": "keys"}},
                        }
                        for name in ("staging", "qa")
                    ]
                }
            },
            (
                "spec.promoteFrom.attestations[1].cosign.keysFrom: ConfigMap keys has the keys of "
                "staging, too; each environment needs keys of its own"
            ),
        ),
        (
            {"attest": {"keyFrom": {"operator": True}}},
            "spec.attest.environment: is required",
        ),
        (
            {"attest": {"environment": "Staging", "keyFrom": {"operator": True}}},
            (
                "spec.attest.environment: 'Staging' isn't the name of an environment; use at most "
                "63 lower-case letters, digits and '-'"
            ),
        ),
        (
            {"attest": {"environment": "staging"}},
            ("spec.attest.keyFrom: is required: name the Secret and its key with the private key"),
        ),
        (
            {"attest": {"environment": "staging", "keyFrom": {"secretName": "a"}}},
            (
                "spec.attest.keyFrom.key: is required: name the Secret and its key with the "
                "private key"
            ),
        ),
        (
            {"attest": {"environment": "a", "keyFrom": {"operator": True, "key": "b"}}},
            (
                "spec.attest.keyFrom.operator: must be alone: it is the operator's key, or that of "
                "a Secret"
            ),
        ),
        (
            {"attest": {"environment": "a", "keyFrom": {"operator": True}, "renew": "59s"}},
            "spec.attest.renew: must be between 1m and 720h",
        ),
        (
            {"windows": [{"days": ["Mon"]}, {"from": "24:00"}]},
            "spec.windows[1].from: must be before 24:00; 00:00 is the beginning of a day",
        ),
        ({"windows": []}, "spec.windows: must have a window; remove it to deploy at any time"),
        *(
            (
                {"windows": [window]},
                ALWAYS_OPEN,
            )
            for window in ({}, {"day": ["Sat"]}, {"days": []}, {"timeZone": "Europe/Berlin"})
        ),
        *(
            (
                {"approval": approval},
                "spec.approval.mode: is required: one of Never, OnRisk, Always",
            )
            for approval in ({}, {"mod": "Always"}, {"expires": "24h"})
        ),
        (
            {"verify": {}},
            "spec.verify.anyOf: is required: name who may sign, or remove the field above it",
        ),
        (
            {"windows": [{"to": "00:00"}]},
            "spec.windows[0].to: must differ from from; for the whole day leave both out",
        ),
        (
            {"windows": [{"days": ["Mo"]}]},
            ("spec.windows[0].days[0]: 'Mo' isn't a day; use Mon, Tue, Wed, Thu, Fri, Sat, Sun"),
        ),
        (
            {"windows": [{"from": "9"}]},
            "spec.windows[0].from: '9' isn't a time; write it as 09:00, up to 24:00",
        ),
        (
            {"windows": [{"timeZone": "Mars"}]},
            (
                "spec.windows[0].timeZone: 'Mars' isn't a known time zone; use an IANA name such "
                "as Europe/Berlin"
            ),
        ),
        (
            {"health": "On"},
            "spec.health: must be one of Off, Watch",
        ),
        (
            {"verify": {"anyOf": []}},
            ("spec.verify.anyOf: is required: name who may sign, or remove the field above it"),
        ),
        (
            {"verify": {"anyOf": [{}]}},
            (
                "spec.verify.anyOf[0].cosign: or notation is required, and only one of them in "
                "each entry"
            ),
        ),
        (
            {"verify": {"anyOf": [{"cosign": {}}]}},
            (
                "spec.verify.anyOf[0].cosign.keysFrom: is required, or issuer, subjectPattern and "
                "trustedRootFrom"
            ),
        ),
        *(
            (
                {"verify": {"anyOf": [{"cosign": {"keysFrom": REF, name: value}}]}},
                (
                    f"spec.verify.anyOf[0].cosign.{name}: must be removed: keysFrom is set; use an "
                    "entry of its own"
                ),
            )
            for name, value in (
                ("issuer", "https://i"),
                ("subjectPattern", "x"),
                ("trustedRootFrom", REF),
            )
        ),
        (
            {"verify": {"anyOf": [{"cosign": {"issuer": "https://i"}}]}},
            "spec.verify.anyOf[0].cosign.subjectPattern: is required",
        ),
        (
            {"verify": {"anyOf": [{"cosign": {"subjectPattern": "x"}}]}},
            "spec.verify.anyOf[0].cosign.issuer: is required",
        ),
        (
            {"verify": {"anyOf": [{"cosign": {"issuer": "i", "subjectPattern": "x"}}]}},
            (
                "spec.verify.anyOf[0].cosign.issuer: 'i' isn't the URL of an issuer; for example "
                "https://accounts.google.com"
            ),
        ),
        (
            {"verify": {"anyOf": [{"cosign": {"issuer": "http://i", "subjectPattern": "x"}}]}},
            (
                "spec.verify.anyOf[0].cosign.trustedRootFrom: is required: the kind and name of a "
                "ConfigMap or Secret"
            ),
        ),
        (
            {"verify": {"anyOf": [{"notation": {"caFrom": REF}}]}},
            (
                'spec.verify.anyOf[0].notation.subjects: is required; ["*"] accepts every '
                "certificate of the CA"
            ),
        ),
        (
            {"verify": {"anyOf": [{"notation": {"subjects": ["*"]}}]}},
            "spec.verify.anyOf[0].notation.caFrom: is required, or signingAuthorityFrom",
        ),
        (
            {"verify": {"anyOf": [{"notation": {"subjects": ["x"] * 21, "caFrom": REF}}]}},
            "spec.verify.anyOf[0].notation.subjects: has 21 items; at most 20 are allowed",
        ),
        (
            {"version": "1.2 -"},
            (
                "spec.version: '1.2 -' isn't a valid version range: write a range with a hyphen "
                "as 1.2 - 1.4, without operators"
            ),
        ),
    ],
)
def test_a_bundle_that_is_wrong_says_where_and_what_to_do(
    spec: dict[str, Any], message: str
) -> None:
    assert str(parsed(**spec)) == message


def test_an_image_has_at_most_512_characters() -> None:
    assert isinstance(parsed(werf={"image": "r/" + "a" * 510}), BundleSpec)
    assert isinstance(parsed(werf={"image": "r/" + "a" * 511}), InvalidSpec)


@pytest.mark.parametrize(
    "spec",
    [
        {"serviceAccountName": "a/b"},
        {"verify": {"anyOf": [{"cosign": {"keysFrom": REF | {"name": "a/b"}}}]}},
        {
            "verify": {
                "anyOf": [
                    {
                        "cosign": {
                            "issuer": "https://".ljust(513, "i"),
                            "subjectPattern": "x",
                            "trustedRootFrom": REF,
                        }
                    }
                ]
            }
        },
        {"caSecret": "a/b"},
        {"secretKey": {}},
        {"secretKey": "keys"},
        {"secretKey": {"secretName": "a"}},
        {"secretKey": {"secretName": "a", "key": ""}},
        {"secretKey": {"secretName": "a/b", "key": "k"}},
        {"secretKey": {"secretName": "a", "key": "a/b"}},
        {"secretKey": {"secretName": "a", "key": "k"}, "env": {"WERF_SECRET_KEY": "x"}},
        {"valuesFrom": [{"kind": "Secret", "name": "a/b"}]},
        {"job": {"nodeSelector": {"-": "x"}}},
        {"job": {"nodeSelector": {"a": "-"}}},
        {"registry": "r" * 256},
        {"repo": "r" * 256},
        {"releasesHistoryMax": 1001},
        {"releasesHistoryMax": 0},
        {"timeout": "999ms"},
        {"timeout": "721h"},
    ],
)
def test_what_a_bundle_may_not_have(spec: dict[str, Any]) -> None:
    assert isinstance(parsed(**spec), InvalidSpec)


@pytest.mark.parametrize(
    "spec",
    [
        {"registry": "r" * 255},
        {"repo": "r" * 255},
        {"releasesHistoryMax": 1000},
        {"releasesHistoryMax": 1},
        {"timeout": "1s"},
        {"timeout": "720h"},
        {"minAge": "1s"},
        {"approval": {"mode": "Always", "expires": "1m"}},
        {"drift": {"interval": "15m", "ignore": [{"kind": "k" * 253, "name": "n" * 253}] * 50}},
        {"dependsOn": NAMES},
        {"promoteFrom": {"bundles": NAMES, "soak": "1s"}},
        {"attest": {"environment": "a" * 63, "keyFrom": {"operator": True}, "renew": "1m"}},
        {"verify": {"anyOf": [{"cosign": {"keysFrom": REF}}] * 10}},
        {"verify": {"anyOf": [{"notation": {"subjects": ["x" * 512] * 20, "caFrom": REF}}]}},
        {
            "verify": {
                "anyOf": [
                    {
                        "cosign": {
                            "issuer": "https://".ljust(512, "i"),
                            "subjectPattern": "x",
                            "trustedRootFrom": {"name": "root"},
                        }
                    }
                ]
            }
        },
        {"job": {"podAnnotations": {"a": "no label: ###"}}},
        {"job": {"nodeSelector": {"a": "x"}}},
    ],
)
def test_what_a_bundle_may_just_have(spec: dict[str, Any]) -> None:
    assert isinstance(parsed(**spec), BundleSpec)


def test_a_bundle_has_the_longest_name_that_helm_takes() -> None:
    def named(length: int) -> BundleSpec | InvalidSpec:
        body = {
            "metadata": {"namespace": "team", "name": "a" * length},
            "spec": {"registry": "r.example", "repo": "app"},
        }
        return parse_bundle(body, BundleDefaults())

    assert isinstance(named(53), BundleSpec)
    assert isinstance(named(54), InvalidSpec)


def test_jobs_get_the_operators_proxies_and_ttl() -> None:
    body = {
        "metadata": {"namespace": "team", "name": "shop"},
        "spec": {"registry": "r.example", "repo": "app", "job": {"podLabels": {"a": "b"}}},
    }
    found = parse_bundle(body, BundleDefaults(proxies={"NO_PROXY": "x"}, jobs_ttl=7))
    assert isinstance(found, BundleSpec)
    assert found.proxies == {"NO_PROXY": "x"}
    assert found.job.ttl_seconds_after_finished == 7


def test_an_image_with_a_digest_is_taken_as_it_is() -> None:
    found = parsed(werf={"image": "werf@sha256"})
    assert isinstance(found, BundleSpec)
    assert found.werf_image == "werf@sha256"
