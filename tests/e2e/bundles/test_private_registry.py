"""Registries that are harder to reach: with a password, with a CA of their own, behind a proxy."""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.authority import Authority
from tests.e2e.bundles.conftest import Operator, Team, operating
from tests.e2e.bundles.private_registry import PASSWORD, USER, front, private_registry, proxy

from localcluster import Api, Cluster
from localcluster.signing import new_key, public_key, sign

pytestmark = pytest.mark.usefixtures("operator")

FAR = "registry.far.example"
"""A host that only the proxy can find."""


@dataclass
class Secured:
    """A registry that speaks TLS under a CA that nobody knows, and a proxy that leads to it."""

    ca: str
    proxy: str
    asked: list[str] = field(default_factory=list)
    """What the proxy was asked for."""


@pytest.fixture(scope="module")
def secured(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    authority = Authority.make(tmp_path_factory.mktemp("authority") / "ca")
    asked: list[str] = []
    tls = authority.context(FAR)
    with front(cluster.registry, tls=tls) as host, proxy(host, asked) as url:
        yield Secured(authority.pem.decode(), url, asked)


@pytest.fixture(scope="module")
def operator(
    cluster: Cluster, api: Api, tmp_path_factory: pytest.TempPathFactory, secured: Secured
) -> Iterator[Operator]:
    """One that finds hosts by a proxy, but for this machine."""
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    names = {"HTTPS_PROXY": secured.proxy, "NO_PROXY": "127.0.0.1"}
    lower = {name.lower(): value for name, value in names.items()}  # the machine may have its own
    with operating(cluster, log, {**names, **lower}) as operator:
        yield operator


@pytest.fixture(scope="module")
def private(cluster: Cluster) -> Iterator[str]:
    with private_registry(cluster.registry) as host:
        yield host


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def pair(password: str = PASSWORD) -> dict[str, str]:
    return {"username": encoded(USER), "password": encoded(password)}


@dataclass
class Signed:
    """A version with a signature, and what asks for it."""

    digest: str
    verify: dict[str, Any]


@pytest.fixture
def signed(team: Team) -> Signed:
    key, digest = new_key(), team.publish("1.0.0", "first")
    sign(key, team.cluster.registry, team.repo, digest)
    team.create("configmaps", "keys", data={"cosign.pub": public_key(key)})
    keys = {"kind": "ConfigMap", "name": "keys"}
    return Signed(digest, {"anyOf": [{"cosign": {"keysFrom": keys}}]})


def test_a_wrong_password_is_said_and_its_correction_logs_in_for_all_that_is_read(
    team: Team, private: str, operator: Operator, signed: Signed
) -> None:
    """The operator, which also reads the signature, and the Job, by an init container."""
    team.create("secrets", "creds", data=pair("wrong"))
    team.bundle("shop", registry=private, auth="creds", interval="1h", verify=signed.verify)
    team.wait_reason("shop", "AuthenticationFailed")
    assert team.status("shop")["ready"] == 0

    team.patch("secrets", "creds", data=pair())

    team.wait_deployed("shop", signed.digest)
    assert team.status("shop")["ready"] == 1
    assert team.condition("shop", "Verified")["status"] == "True"
    (job,) = team.jobs("shop")
    assert len(job["spec"]["template"]["spec"]["initContainers"]) == 1
    shown = json.dumps([team.get("bundles", "shop"), job]) + operator.log.read_text()
    assert PASSWORD not in shown
    assert encoded(PASSWORD) not in shown


def test_a_ca_secret_and_a_proxy_serve_the_operator_and_the_job(
    team: Team, secured: Secured, signed: Signed
) -> None:
    """By a name: werf speaks plain HTTP to addresses of loopback, whatever the Bundle says."""
    team.bundle("shop", registry=FAR, insecure=False, verify=signed.verify)
    refusal = team.wait_reason("shop", "RegistryUnreachable")
    assert "caSecret" in refusal["message"]

    team.create("secrets", "ca", data={"ca.crt": encoded(secured.ca)})
    before = len(secured.asked)
    team.patch("bundles", "shop", spec={"caSecret": "ca"})

    team.wait_deployed("shop", signed.digest)
    assert team.condition("shop", "Verified")["status"] == "True"
    assert secured.asked == [f"{FAR}:443"] * len(secured.asked)
    assert len(secured.asked) > before + 1  # the operator, and werf
    (job,) = team.jobs("shop")
    env = {
        v["name"]: v.get("value") for v in job["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    assert env["HTTPS_PROXY"] == secured.proxy
    assert env["NO_PROXY"] == "127.0.0.1,$(KUBERNETES_SERVICE_HOST)"
    assert "WERF_INSECURE_REGISTRY" not in env
