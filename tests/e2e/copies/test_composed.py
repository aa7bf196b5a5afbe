"""Objects made of several sources, on the real API server: contents, counts, refusals."""

import base64
import json
from typing import Any

import pytest
from tests.e2e.copies.conftest import encoded, wait_quiet
from tests.e2e.operator_process import until
from tests.long import LONG

TYPE = "kubernetes.io/dockerconfigjson"
COPIES = 8 if LONG else 4


def config(**hosts: str) -> dict[str, str]:
    auths = {host.replace("_", "."): {"username": "u", "password": w} for host, w in hosts.items()}
    return encoded(**{".dockerconfigjson": json.dumps({"auths": auths})})


def registries(word: str, infra: str, **more: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"registry": word}}
    return {
        "sources": [
            {"as": "hub", "kind": "Secret", "namespace": infra, "name": "hub-creds"},
            {
                "as": "private",
                "kind": "Secret",
                "namespace": infra,
                "selector": selector,
                "optional": True,
            },
        ],
        "template": {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": TYPE,
            "metadata": {"name": word},
            "data": {
                ".dockerconfigjson": (
                    "{{ ([sources.hub] + sources.private) | merge_dockerconfig | b64encode }}"
                )
            },
        },
        "targets": {"namespaces": [f"{word}-*"]},
        **more,
    }


def hosts(user, namespace: str, name: str) -> list[str]:
    data = user.data("secrets", namespace, name) or {}
    text = base64.b64decode(data.get(".dockerconfigjson", "")) or b'{"auths":{}}'
    return sorted(json.loads(text)["auths"])


@pytest.fixture
def infra(user, namespace, word):
    space: str = namespace(f"infra-{word}")
    user.create("secrets", space, "hub-creds", type=TYPE, data=config(hub_io="a"))
    labels = {"labels": {"registry": word}}
    for name in ("one", "two"):
        user.create(
            "secrets", space, name, type=TYPE, metadata=labels, data=config(**{f"{name}_io": "b"})
        )
    return space


@pytest.fixture
def targets(namespace, word):
    return [namespace(f"{word}-{number}") for number in range(COPIES)]


def secret_reads(operator, since: int, infra: str) -> list[str]:
    return sorted(
        str(event.name)
        for event in operator.cluster.audit_events(since)
        if event.user == operator.user
        and event.verb == "get"
        and (event.resource, event.namespace) == ("secrets", infra)
    )


def secret_writes(operator, since: int, targets: list[str]) -> list[str]:
    found = operator.writes(since, but=("events",))
    return [event.verb for event in found if event.namespace in targets]


def test_each_change_is_one_reading_of_each_source_and_one_write_of_each_copy(
    operator, user, infra, targets, word
):
    since = operator.cluster.audit_offset()
    user.rule(operator.namespace, word, registries(word, infra))
    status = user.wait_ready(operator.namespace, word)
    assert status["sources"] == 3
    assert status["copies"]["ready"] == COPIES
    for target in targets:
        assert hosts(user, target, word) == ["hub.io", "one.io", "two.io"]
        assert user.get("secrets", target, word)["type"] == TYPE
    wait_quiet(operator, *targets)
    assert secret_reads(operator, since, infra) == ["hub-creds", "one", "two"]
    assert secret_writes(operator, since, targets) == ["create"] * COPIES
    since = operator.cluster.audit_offset()
    user.patch("secrets", infra, "two", data=config(new_io="c"))
    for target in targets:
        until(lambda at=target: "new.io" in hosts(user, at, word), f"new in {target}")
    wait_quiet(operator, *targets)
    assert secret_reads(operator, since, infra) == ["hub-creds", "one", "two"]
    assert secret_writes(operator, since, targets) == ["update"] * COPIES


def test_an_object_with_the_wanted_content_is_satisfied(operator, user, infra, targets, word):
    data = {"a": "eu"}
    user.create("configmaps", infra, "settings", data={"region": "eu"})
    user.create("configmaps", targets[0], word, data=data)
    spec = {
        "sources": [{"as": "s", "kind": "ConfigMap", "namespace": infra, "name": "settings"}],
        "template": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": word},
            "data": {"a": "{{ sources.s.data.region }}"},
        },
        "targets": {"namespaces": [f"{word}-*"]},
    }
    user.rule(operator.namespace, word, spec)
    status = user.wait_ready(operator.namespace, word)
    assert status["copies"]["satisfied"] == 1
    user.patch("configmaps", infra, "settings", data={"region": "us"})
    user.wait_failing(operator.namespace, word)
    user.wait_data("configmaps", targets[1], word, {"a": "us"})
    assert user.data("configmaps", targets[0], word) == data
