"""What registries send when something is pushed, in the shapes that their documentation shows."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.steps import assert_quick

from copyrator.oci.notifications import (
    Notification,
    Push,
    Sender,
    UnreadableNotificationError,
    canonical,
    parse_notification,
)
from copyrator.settings.limits import STEP_SECONDS, WEBHOOK_BODY_BYTES, WEBHOOK_PUSHES
from hostile.mangled import JSON


def event(action: str = "push", **target: Any) -> dict[str, Any]:
    target = {"mediaType": "application/vnd.oci.image.manifest.v1+json", **target}
    return {"id": "1", "action": action, "target": target, "request": {"host": "registry:5000"}}


def harbor(kind: str, tag: str | None = "1.0.0") -> dict[str, Any]:
    resource = {"digest": "sha256:00", "resource_url": "hub.example.com/shop/app:1.0.0", "tag": tag}
    repository = {"name": "app", "namespace": "shop", "repo_full_name": "shop/app"}
    return {
        "type": kind,
        "occur_at": 1586922308,
        "operator": "admin",
        "event_data": {"resources": [resource], "repository": repository},
    }


def github(key: str = "package", kind: str = "CONTAINER", **version: Any) -> dict[str, Any]:
    return {
        "action": "published",
        key: {
            "name": "app",
            "namespace": "Octo",
            "package_type": kind,
            "owner": {"login": "Octo"},
            "package_version": version,
        },
        "repository": {"full_name": "Octo/shop"},
    }


CLOUD_EVENT = {
    "specversion": "1.0",
    "type": "harbor.artifact.pushed",
    "datacontenttype": "application/json",
    "data": harbor("")["event_data"],
}
TAGGED = {"container_metadata": {"tag": {"name": "1.0.0", "digest": "sha256:00"}}}
PUSH = Push("shop/app", tag="1.0.0")
IN_HARBOR = Push("shop/app", "hub.example.com", "1.0.0")
ON_GITHUB = Push("octo/app", "ghcr.io", "1.0.0")


@pytest.mark.parametrize(
    ("payload", "sender", "pushes"),
    [
        ({"events": [event(repository="shop/app", tag="1.0.0")]}, Sender.DISTRIBUTION, [PUSH]),
        ({"events": [event(repository="shop/app")]}, Sender.DISTRIBUTION, []),  # a blob, a layer
        ({"events": [event("delete", repository="shop/app", tag="1.0.0")]},
         Sender.DISTRIBUTION, []),
        ({"events": [event("pull", repository="shop/app", tag="1.0.0")]}, Sender.DISTRIBUTION, []),
        ({"events": [event(repository="a", tag="1"), event(repository="a", tag="1"),
                     event(repository="b", tag="1")]},
         Sender.DISTRIBUTION, [Push("a", tag="1"), Push("b", tag="1")]),
        ({"events": []}, Sender.DISTRIBUTION, []),
        (harbor("PUSH_ARTIFACT"), Sender.HARBOR, [IN_HARBOR]),
        (harbor("pushImage"), Sender.HARBOR, [IN_HARBOR]),
        (harbor("PUSH_ARTIFACT", tag=None), Sender.HARBOR, [Push("shop/app", "hub.example.com")]),
        (harbor("DELETE_ARTIFACT"), Sender.HARBOR, []),
        (CLOUD_EVENT, Sender.HARBOR, [IN_HARBOR]),
        ({**CLOUD_EVENT, "type": "harbor.artifact.pulled"}, Sender.HARBOR, []),
        (github(**TAGGED), Sender.GITHUB, [ON_GITHUB]),
        (github("registry_package", **TAGGED), Sender.GITHUB, [ON_GITHUB]),
        (github(package_url="ghcr.io/octo/nested/app:1.0.0"), Sender.GITHUB,
         [Push("octo/nested/app", "ghcr.io", "1.0.0")]),
        (github(package_url="ghcr.io/octo/app@sha256:00", **TAGGED), Sender.GITHUB, [ON_GITHUB]),
        (github(), Sender.GITHUB, [Push("octo/app", "ghcr.io")]),
        (github(kind="npm", **TAGGED), Sender.GITHUB, []),
        ({"zen": "Keep it logically awesome.", "hook_id": 1, "repository": {}}, Sender.GITHUB, []),
        ({"registry": "R.example.com:5000", "repository": "/shop/app/", "tag": "1.0.0"},
         Sender.GENERIC, [Push("shop/app", "r.example.com:5000", "1.0.0")]),
        ({"registry": "docker.io", "repository": "shop/app"}, Sender.GENERIC,
         [Push("shop/app", "registry-1.docker.io")]),
        ({"repository": "shop/app"}, Sender.GENERIC, [Push("shop/app")]),
        ({"repository": ""}, Sender.GENERIC, []),
    ],
)  # fmt: skip
def test_reads_who_pushed_what(payload: Any, sender: Sender, pushes: list[Push]) -> None:
    found = parse_notification(json.dumps(payload).encode())
    assert found == Notification(sender, tuple(pushes))


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff\xfe", b"[]", b"1", b"null", b"{}", b'{"repository": 5}', b'{"events": {}}',
     b"[" * 200_000, b"1" * 10_000, b'{"repository": "a"'],
)  # fmt: skip
def test_refuses_what_is_none(body: bytes) -> None:
    with pytest.raises(UnreadableNotificationError):
        parse_notification(body)


@pytest.mark.parametrize(
    ("registry", "name"),
    [
        ("A.example.com ", "a.example.com"),
        ("docker.io", "registry-1.docker.io"),
        ("index.docker.io", "registry-1.docker.io"),
    ],
)
def test_a_registry_has_one_name(registry: str, name: str) -> None:
    assert canonical(registry) == name


_WORDS = st.sampled_from(
    ["events", "event_data", "data", "type", "package", "registry_package", "package_version",
     "package_type", "package_url", "container_metadata", "tag", "target", "repository", "registry",
     "resources", "resource_url", "repo_full_name", "action", "name", "namespace", "owner"]
)  # fmt: skip
_TEXTS = st.sampled_from(["push", "PUSH_ARTIFACT", "container", "published", "ghcr.io/a/b:c"])
_LIKE_IT = st.recursive(
    JSON | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=6),
    max_leaves=20,
)


@given(_LIKE_IT)
def test_never_raises_anything_else(payload: Any) -> None:
    try:
        found = parse_notification(json.dumps(payload).encode())
    except UnreadableNotificationError:
        return
    assert all(push.repository for push in found.pushes)


@given(st.binary(max_size=64))
def test_never_raises_anything_else_for_bytes(body: bytes) -> None:
    try:
        parse_notification(body)
    except UnreadableNotificationError:
        return


def test_a_call_names_a_bounded_number_of_pushes() -> None:
    pushes = [event(repository="shop/app", tag=str(i)) for i in range(WEBHOOK_PUSHES + 1)]

    parse_notification(json.dumps({"events": pushes[1:]}).encode())
    with pytest.raises(UnreadableNotificationError, match="more than 1000 pushes"):
        parse_notification(json.dumps({"events": pushes}).encode())


@pytest.mark.parametrize(
    "piece", ["[],", "{},", "1,", '"",', '{"a":1},', '{"action":"push","target":{}},', "1e5,"]
)
@pytest.mark.parametrize("start", ["[", '{"events":[', '{"event_data":{"resources":['])
def test_no_body_takes_a_long_step(piece: str, start: str) -> None:
    times = (WEBHOOK_BODY_BYTES - 100) // len(piece)
    end = "".join({"[": "]", "{": "}"}[sign] for sign in reversed(start) if sign in "[{")
    body = f"{start}{(piece * times)[:-1]}{end}".encode()

    def read() -> None:
        with suppress(UnreadableNotificationError):
            parse_notification(body)

    assert_quick(read, STEP_SECONDS)
