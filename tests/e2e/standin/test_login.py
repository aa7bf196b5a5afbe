"""Registries that want to know who asks."""

import json
from collections.abc import Iterator

import pytest
from tests.e2e.bundles.bad_registry import Front, serving
from tests.e2e.standin.conftest import Charts, Werf

from localcluster import Cluster
from localcluster.bundle import PushError


@pytest.fixture
def guarded(cluster: Cluster) -> Iterator[str]:
    """A registry with the cluster registry's content that wants credentials, for a token."""
    front = Front(behind=cluster.registry, users={"alice": "pa:ss"})
    with serving(front):
        yield front.host


def test_a_login_is_kept_for_the_deploy(werf: Werf, charts: Charts, guarded: str) -> None:
    charts.push()
    werf.env["WERF_REPO"] = f"{guarded}/{charts.repo}"
    code, output = werf.run("bundle", "apply", WERF_TAG="1.0.0")
    assert code == 1
    assert "401" in output

    login = {"WERF_USERNAME": "alice", "WERF_PASSWORD": "pa:ss", "WERF_INSECURE_REGISTRY": "1"}
    code, output = werf.run("cr", "login", guarded, **login)

    assert code == 0, output
    config = json.loads((werf.directory / "home" / ".docker" / "config.json").read_text())
    assert list(config["auths"]) == [guarded]
    werf.apply()


def test_a_bad_login_fails_and_keeps_nothing(werf: Werf, guarded: str) -> None:
    wrong = {"WERF_USERNAME": "alice", "WERF_PASSWORD": "wrong", "WERF_INSECURE_REGISTRY": "1"}
    code, output = werf.run("cr", "login", guarded, **wrong)

    assert code == 1
    assert f'unable to authenticate into "{guarded}"' in output
    assert "wrong" not in output
    assert not (werf.directory / "home" / ".docker" / "config.json").exists()


def test_a_push_that_is_refused_names_the_step(charts: Charts, guarded: str) -> None:
    charts.registry = guarded
    with pytest.raises(PushError, match=r"(HEAD|POST) http://.*: [45]0\d"):
        charts.push()
