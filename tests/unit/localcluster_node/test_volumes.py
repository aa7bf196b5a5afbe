"""What is in a volume."""

from typing import Any

import pytest

from localcluster.node.sources import MissingReference, Ref
from localcluster.node.volumes import File, TokenSpec, check, files, references, tokens

POD = {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {}}
SETTINGS, LOGIN = Ref("ConfigMap", "settings"), Ref("Secret", "login")
DATA = {SETTINGS: {"a": b"1", "b": b"2"}, LOGIN: {"password": b"x"}}


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({"configMap": {"name": "settings"}}, {"a": File(b"1"), "b": File(b"2")}),
        (
            {"secret": {"secretName": "login", "defaultMode": 0o400}},
            {"password": File(b"x", 0o400)},
        ),
        (
            {
                "configMap": {
                    "name": "settings",
                    "items": [{"key": "a", "path": "d/e", "mode": 0o600}],
                }
            },
            {"d/e": File(b"1", 0o600)},
        ),
        ({"configMap": {"name": "absent", "optional": True}}, {}),
        (
            {
                "configMap": {
                    "name": "settings",
                    "optional": True,
                    "items": [{"key": "z", "path": "z"}],
                }
            },
            {},
        ),
        (
            {"downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {"n": File(b"p")},
        ),
        (
            {
                "projected": {
                    "defaultMode": 0o440,
                    "sources": [
                        {"secret": {"name": "login"}},
                        {"configMap": {"name": "settings", "items": [{"key": "b", "path": "b"}]}},
                        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
                    ],
                }
            },
            {
                "password": File(b"x", 0o440),
                "b": File(b"2", 0o440),
                "token": File(b"jwt", 0o600),
            },
        ),
    ],
)
def test_volumes_have_the_files_that_they_name(volume: Any, expected: dict[str, File]) -> None:
    data = {**DATA, Ref("ConfigMap", "absent"): None}
    issued = dict.fromkeys(tokens(volume), "jwt")

    assert files(volume, POD, data, issued) == expected


def test_a_missing_key_is_named() -> None:
    volume = {"configMap": {"name": "settings", "items": [{"key": "z", "path": "z"}]}}

    with pytest.raises(MissingReference, match="non-existent config key: z"):
        files(volume, POD, DATA, {})


def test_a_missing_object_is_named() -> None:
    with pytest.raises(MissingReference, match='secret "login" not found'):
        files({"secret": {"secretName": "login"}}, POD, {LOGIN: None}, {})


def test_sources_and_tokens_are_known_beforehand() -> None:
    volume = {
        "projected": {
            "sources": [
                {"secret": {"name": "login"}},
                {"serviceAccountToken": {"path": "t", "audience": "vault"}},
            ]
        }
    }

    assert list(references(volume)) == [LOGIN]
    assert list(tokens(volume)) == [TokenSpec("t", "vault", 3600)]


@pytest.mark.parametrize("kind", ["persistentVolumeClaim", "csi", "nfs"])
def test_kinds_that_a_process_node_lacks_are_refused(kind: str) -> None:
    with pytest.raises(MissingReference, match=kind):
        check({"name": "v", kind: {}})


@pytest.mark.parametrize("kind", ["emptyDir", "hostPath", "configMap"])
def test_kinds_that_it_has_are_not(kind: str) -> None:
    check({"name": "v", kind: {}})
