"""Errors before there is a report: what the operator looks for in werf's words is there."""

from collections.abc import Iterator

import pytest
from tests.authority import Authority
from tests.e2e.bundles.private_registry import front, proxy
from tests.e2e.standin.conftest import Charts, Werf, detail, judged, only_stand_in

from copyrator.api.reasons.bundles import BundleReason
from localcluster import Cluster

FAR = "registry.far.example"
"""A host that only the proxy can find."""


@pytest.fixture(scope="module")
def tls(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Variables that lead to registries under a CA that nobody knows."""
    authority = Authority.make(tmp_path_factory.mktemp("authority") / "ca")
    context = authority.context(FAR)
    with front(cluster.registry, tls=context) as host, proxy(host, []) as url:
        yield {
            "TLS": host,
            "HTTPS_PROXY": url,
            "https_proxy": url,
            "CA": str(authority.directory / "ca.pem"),
        }


UNREACHABLE = BundleReason.REGISTRY_UNREACHABLE
BROKEN = BundleReason.DEPLOY_FAILED


@pytest.mark.parametrize(
    ("env", "words", "reason"),
    [
        ({"WERF_TAG": "9.9.9"}, "{repo}:9.9.9: not found", BROKEN),
        pytest.param({"WERF_TAG": "1.0.0@sha256:" + 64 * "a"}, "not found", BROKEN, marks=detail),
        pytest.param(
            {"WERF_TAG": "1.0.*"}, "could not parse reference: {repo}:1.0.*", BROKEN, marks=detail
        ),
        pytest.param(
            {"WERF_TAG": "sha256:" + 64 * "a"},
            "could not parse reference: {repo}:sha256",
            BROKEN,
            marks=detail,
        ),
        ({"WERF_REPO": "127.0.0.1:1/x"}, "could not parse reference: 127.0.0.1:1/x:", BROKEN),
        ({"WERF_REPO": "127.0.0.1:1/xx"}, "connection refused", UNREACHABLE),
        ({"WERF_REPO": f"{FAR}/xx", "https_proxy": "{proxy}"}, "x509: ", UNREACHABLE),
    ],
)
def test_an_error_before_there_is_a_report(
    werf: Werf, charts: Charts, tls: dict[str, str], env: dict[str, str], words: str, reason: str
) -> None:
    charts.push()
    env = {name: value.format(proxy=tls["https_proxy"]) for name, value in env.items()}

    code, output = werf.run("bundle", "apply", **{"WERF_TAG": "1.0.0", **env})

    assert code == 1
    assert "Traceback" not in output
    last = output.splitlines()[-1]
    assert last.startswith("Error: pull bundle: ")
    assert words.format(repo=werf.env["WERF_REPO"]) in last
    assert judged(code, output).reason == reason
    assert not werf.report_file.exists()


@detail
def test_a_ca_is_taken_from_the_variable_and_only_for_names_that_are_not_loopback(
    werf: Werf, charts: Charts, tls: dict[str, str]
) -> None:
    """On loopback werf speaks plain HTTP, whatever the Bundle says."""
    charts.push()
    trusting = {"SSL_CERT_FILE": tls["CA"], "https_proxy": tls["https_proxy"]}

    code, _ = werf.run(
        "bundle", "apply", WERF_REPO=f"{tls['TLS']}/{charts.repo}", WERF_TAG="1.0.0", **trusting
    )
    assert code == 1

    werf.apply(WERF_REPO=f"{FAR}/{charts.repo}", **trusting)


@detail
@only_stand_in
@pytest.mark.parametrize("mode", ["auto", None])
def test_what_needs_more_than_a_restricted_pod_has(
    werf: Werf, charts: Charts, mode: str | None
) -> None:
    code, output = werf.run("bundle", "apply", WERF_TAG="1.0.0", WERF_BUILDAH_MODE=mode)

    assert code == 1
    assert "parsing PID" in output


@detail
@only_stand_in
@pytest.mark.parametrize("name", ["HOME", "TMPDIR"])
def test_directories_that_cannot_be_written_to_are_said(werf: Werf, name: str) -> None:
    code, output = werf.run("bundle", "apply", WERF_TAG="1.0.0", **{name: "/dev/null/x"})

    assert code == 1
    assert "mkdir /dev/null/x" in output
