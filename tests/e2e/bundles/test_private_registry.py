"""Bundles from a registry that wants a password, by both forms of Secret."""

import base64
import json
from collections.abc import Iterator

import pytest
from tests.e2e.bundles.conftest import Operator, Team
from tests.e2e.bundles.private_registry import PASSWORD, USER, private_registry

from localcluster import Cluster

pytestmark = pytest.mark.usefixtures("operator")


@pytest.fixture(scope="module")
def private(cluster: Cluster) -> Iterator[str]:
    with private_registry(cluster.registry) as host:
        yield host


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def pair(password: str = PASSWORD) -> dict[str, str]:
    return {"username": encoded(USER), "password": encoded(password)}


def docker_config(host: str) -> dict[str, str]:
    auths = {host: {"auth": encoded(f"{USER}:{PASSWORD}")}}
    return {".dockerconfigjson": encoded(json.dumps({"auths": auths}))}


def test_username_and_password_log_in_by_an_init_container(team: Team, private: str) -> None:
    digest = team.publish("1.0.0", "first")
    team.create("secrets", "creds", data=pair())

    team.bundle("shop", registry=private, auth="creds")

    team.wait_deployed("shop", digest)
    (job,) = team.jobs("shop")
    assert len(job["spec"]["template"]["spec"]["initContainers"]) == 1
    assert PASSWORD not in json.dumps(job)


def test_a_docker_config_is_mounted(team: Team, private: str) -> None:
    digest = team.publish("1.0.0", "first")
    kind = "kubernetes.io/dockerconfigjson"
    team.create("secrets", "creds", data=docker_config(private), type=kind)

    team.bundle("shop", registry=private, auth="creds")

    team.wait_deployed("shop", digest)
    assert "initContainers" not in team.jobs("shop")[0]["spec"]["template"]["spec"]


def test_a_wrong_password_is_said_and_its_correction_is_used_at_once(
    team: Team, private: str, operator: Operator
) -> None:
    digest = team.publish("1.0.0", "first")
    team.create("secrets", "creds", data=pair("wrong"))
    team.bundle("shop", registry=private, auth="creds", interval="1h")
    team.wait_reason("shop", "AuthenticationFailed")
    assert team.status("shop")["ready"] == 0

    team.patch("secrets", "creds", data=pair())

    team.wait_deployed("shop", digest)
    assert team.status("shop")["ready"] == 1
    shown = json.dumps(team.get("bundles", "shop")) + operator.log.read_text()
    assert PASSWORD not in shown
    assert encoded(PASSWORD) not in shown
