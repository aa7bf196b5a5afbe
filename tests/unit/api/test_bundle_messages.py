"""What the parser of Bundles says, word for word, and where its limits are."""

from __future__ import annotations

from typing import Any

import pytest

from copyrator.api.bundle import parse_bundle
from copyrator.api.bundle_spec import BundleDefaults, BundleSpec
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
        {"caSecret": "a/b"},
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
