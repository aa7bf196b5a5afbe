"""Variables resolve by the kubelet's rules."""

from typing import Any

import pytest

from localcluster.node.environment import expand, field_value, references, resolve
from localcluster.node.sources import MissingReference, Ref

POD = {
    "metadata": {
        "name": "web-0",
        "namespace": "shop",
        "uid": "u-1",
        "labels": {"b": "2", "app.kubernetes.io/name": "web"},
    },
    "spec": {"nodeName": "n", "serviceAccountName": "sa"},
}
SETTINGS, LOGIN = Ref("ConfigMap", "settings"), Ref("Secret", "login")


def variable(origin: Any) -> Any:
    return {"env": [{"name": "X", "valueFrom": origin}]}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(B)", "x1y2"),
        ("$(NONE)", "$(NONE)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$", "$"),
        ("$", "$"),
        ("$A", "$A"),
        ("$(A", "$(A"),
        ("cost: 5$", "cost: 5$"),
        ("$()", "$()"),
    ],
)
def test_references_expand(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == expanded


def test_later_ones_win_and_only_earlier_ones_are_seen() -> None:
    container = {
        "envFrom": [{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "login"}}],
        "env": [
            {"name": "EARLY", "value": "$(LATE)"},
            {"name": "LATE", "value": "$(shared)"},
            {"name": "given", "value": "own"},
        ],
    }
    data = {SETTINGS: {"shared": b"map", "bad=key": b"x"}, LOGIN: {"shared": b"secret"}}

    result = resolve(container, POD, data, {"given": "node", "other": "node"})

    assert result.values == {
        "given": "own",
        "other": "node",
        "shared": "secret",
        "EARLY": "$(LATE)",
        "LATE": "secret",
    }


def test_values_of_secrets_are_told_apart() -> None:
    container = {
        "envFrom": [{"secretRef": {"name": "login"}, "prefix": "S_"}],
        "env": [
            {"name": "P", "valueFrom": {"secretKeyRef": {"name": "login", "key": "p"}}},
            {"name": "S_q", "value": "plain"},
        ],
    }

    result = resolve(container, POD, {LOGIN: {"p": b"x", "q": b"y"}}, {})

    assert result.secret == {"P", "S_p"}


@pytest.mark.parametrize(
    ("container", "data", "message"),
    [
        (
            {"envFrom": [{"secretRef": {"name": "login"}}]},
            {LOGIN: None},
            'secret "login" not found',
        ),
        (
            {
                "env": [
                    {
                        "name": "X",
                        "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "k"}},
                    }
                ]
            },
            {SETTINGS: {}},
            "couldn't find key k in ConfigMap shop/settings",
        ),
        (
            variable({"resourceFieldRef": {"resource": "limits.cpu"}}),
            {},
            "resourceFieldRef",
        ),
        (
            {
                "env": [
                    {"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "spec.restartPolicy"}}}
                ]
            },
            {},
            "spec.restartPolicy",
        ),
    ],
)
def test_what_is_missing_is_named(container: Any, data: Any, message: str) -> None:
    with pytest.raises(MissingReference) as caught:
        resolve(container, POD, data, {})

    assert message in str(caught.value)


def test_optional_sources_may_be_missing() -> None:
    container = {
        "envFrom": [{"configMapRef": {"name": "settings", "optional": True}}],
        "env": [
            {
                "name": "X",
                "valueFrom": {"secretKeyRef": {"name": "login", "key": "k", "optional": True}},
            }
        ],
    }

    assert resolve(container, POD, {SETTINGS: None, LOGIN: {}}, {}).values == {}
    assert set(references(container)) == {SETTINGS, LOGIN}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "web-0"),
        ("metadata.uid", "u-1"),
        ("metadata.labels['app.kubernetes.io/name']", "web"),
        ("metadata.labels['none']", ""),
        ("metadata.labels", 'app.kubernetes.io/name="web"\nb="2"'),
        ("spec.serviceAccountName", "sa"),
        ("status.podIP", "127.0.0.1"),
    ],
)
def test_fields_have_values(path: str, value: str) -> None:
    assert field_value(POD, path) == value
