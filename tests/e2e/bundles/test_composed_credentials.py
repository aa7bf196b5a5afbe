"""One pull Secret that a rule makes of several registries' credentials logs in."""

import base64
import json
from collections.abc import Iterator

import pytest
from tests.e2e.bundles.conftest import Operator, Team
from tests.e2e.bundles.private_registry import PASSWORD, USER, front
from tests.e2e.installation import RULES
from tests.long import long_form

from localcluster import Cluster

TYPE = "kubernetes.io/dockerconfigjson"


@pytest.fixture
def tokens() -> list[str]:
    return []


@pytest.fixture
def private(cluster: Cluster, tokens: list[str]) -> Iterator[str]:
    with front(cluster.registry, tokens=tokens) as host:
        yield host


def config(host: str, user: str, password: str) -> dict[str, str]:
    pair = base64.b64encode(f"{user}:{password}".encode()).decode()
    text = json.dumps({"auths": {host: {"auth": pair}}})
    return {".dockerconfigjson": base64.b64encode(text.encode()).decode()}


@long_form("tests/e2e/bundles/test_private_registry.py::test_a_docker_config_is_mounted")
def test_the_merged_credentials_log_in_at_a_registry_that_wants_a_token(
    team: Team, operator: Operator, private: str, tokens: list[str]
) -> None:
    digest = team.publish("1.0.0", "first")
    infra = operator.namespace
    name = f"made-{team.namespace}"
    for part, data in (
        ("other", config("registry.example.com", "bob", "not-it")),
        ("private", config(private, USER, PASSWORD)),
        ("later", config(private, USER, "not the first of its host")),
    ):
        body = {"metadata": {"name": f"{name}-{part}"}, "type": TYPE, "data": data}
        team.api.create(f"/api/v1/namespaces/{infra}/secrets", body)
    parts = ("other", "private", "later")
    spec = {
        "sources": [{"as": part, "kind": "Secret", "name": f"{name}-{part}"} for part in parts],
        "template": {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": TYPE,
            "metadata": {"name": "registries"},
            "stringData": {
                ".dockerconfigjson": (
                    "{{ [sources.other, sources.private, sources.later] | merge_dockerconfig }}"
                )
            },
        },
        "targets": {"namespaces": [team.namespace]},
    }
    rule = {
        "apiVersion": "flant.com/v1",
        "kind": "CopyratorRule",
        "metadata": {"name": name},
        "spec": spec,
    }
    team.api.create(RULES.format(infra), rule)

    team.bundle("shop", registry=private, auth="registries")

    team.wait_deployed("shop", digest)
    assert tokens, "nobody logged in"
    shown = json.dumps(team.get("bundles", "shop")) + operator.log.read_text()
    assert PASSWORD not in shown
