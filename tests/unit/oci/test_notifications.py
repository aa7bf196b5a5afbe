"""What registries send when something is pushed, as they document it, and what others may send."""

from __future__ import annotations

import json
from base64 import b64encode
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.recorded_notifications import (
    COMPONENT,
    ECR_HOST,
    HUB_HOST,
    PUSHED,
    RECORDED,
    REFUSED,
    Recorded,
    acr,
    artifactory,
    cloud_event,
    docker_hub,
    ecr,
    gitea,
    harbor,
    nexus,
    pubsub,
    quay,
)
from tests.steps import STEP_SECONDS, assert_quick

from copyrator.oci.notifications import (
    WEBHOOK_PUSHES,
    Notification,
    Push,
    Sender,
    UnreadableNotificationError,
    canonical,
    parse_notification,
)
from copyrator.serving.webhook import WEBHOOK_BODY_BYTES
from hostile.mangled import JSON, mangled


def event(**target: Any) -> dict[str, Any]:
    return {"action": "push", "target": target}


def named(row: Recorded) -> str:
    return str(row)


@pytest.mark.parametrize("row", RECORDED, ids=named)
def test_reads_what_each_sender_says(row: Recorded) -> None:
    assert parse_notification(row.body, row.event_type) == Notification(row.sender, row.pushes)


@pytest.mark.parametrize("row", RECORDED, ids=named)
def test_reads_the_same_from_a_form(row: Recorded) -> None:
    form = urlencode({"payload": row.body}).encode()
    found = parse_notification(form, row.event_type)
    assert found == Notification(row.sender, row.pushes)


def test_each_sender_has_events_that_poll_and_events_that_do_not() -> None:
    polling = {row.sender for row in RECORDED if row.pushes}
    silent = {row.sender for row in RECORDED if not row.pushes}
    assert polling == set(Sender) - {Sender.GENERIC}
    # Docker Hub and Alibaba send nothing but pushes.
    assert silent == polling - {Sender.DOCKER_HUB, Sender.ALIBABA}


@pytest.mark.parametrize("row", REFUSED, ids=named)
def test_refuses_what_tells_of_no_push(row: Recorded) -> None:
    with pytest.raises(UnreadableNotificationError) as refusal:
        parse_notification(row.body, row.event_type)
    assert {
        "GitLab": "the registry's own notifications",
        "SNS": "an API destination of EventBridge",
        "Event Grid": "docs/webhook.md",
    }[row.name.partition(":")[0].partition(" project")[0]] in str(refusal.value)


IN_ACR = acr(tag="v1")
IN_ECR = ecr(**PUSHED)


@pytest.mark.parametrize(
    ("payload", "pushes"),
    [
        ({**IN_ACR, "action": ["push"]}, []),
        ({**IN_ACR, "target": {"repository": "a", "tag": 5}, "request": {"host": "R.io:5000"}},
         [Push("a", "r.io:5000")]),
        ({**IN_ACR, "request": [{"host": "r.io"}]}, [Push("hello-world", tag="v1")]),
        ({**IN_ECR, "account": "r.example.com/"}, []),
        ({**IN_ECR, "region": "us-west-2.evil.example/"}, []),
        ({**IN_ECR, "detail": {"result": "SUCCESS", "action-type": {"PUSH": 1}}}, []),
        (docker_hub(tag={"name": "latest"}), [Push("svendowideit/testhook", HUB_HOST)]),
        (quay(updated_tags="latest"), []),
        (quay(updated_tags=[["latest"]]), [Push("dgangaia/test", "quay.io")]),
        ({"docker_url": "quay.io", "updated_tags": ["latest"]}, []),
        (pubsub({"action": "INSERT", "tag": {"a": 1}}), []),
        (artifactory("pushed", image_name=["a"], path=5), []),
        (nexus("CREATED", component={**COMPONENT, "name": {"a": 1}}), []),
        ({**nexus("CREATED", component=COMPONENT), "repositoryName": 7},
         [Push("shop/app", tag="1.0.0")]),
        (cloud_event("zotregistry.image.updated", {"name": [], "reference": "1"}), []),
        (gitea(owner="Team"), []),
        (harbor("PUSH_ARTIFACT", event_data={"resources": {}, "repository": "a"}), []),
        ({"events": [event(repository="a", tag="1"), event(repository="a", tag="1"), "x", None,
                     event(repository="b", tag="1"), event(repository=["c"], tag="1")]},
         [Push("a", tag="1"), Push("b", tag="1")]),
        ({"events": []}, []),
        ({"registry": "R.example.com:5000", "repository": "/shop/app/", "tag": "1.0.0"},
         [Push("shop/app", "r.example.com:5000", "1.0.0")]),
        ({"repository": "shop/app"}, [Push("shop/app")]),
    ],
)  # fmt: skip
def test_leaves_out_what_has_another_type(payload: Any, pushes: list[Push]) -> None:
    assert list(parse_notification(json.dumps(payload).encode()).pushes) == pushes


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff\xfe", b"[]", b"{}", b'{"repository": 5}',
     b"[" * 200_000, b'{"repository": "a"', b'{"a":' * 20_000, b"[1]",
     b"payload=", b"payload=%7B", b"payload=1&payload={}", b"other=%7B%7D",
     b'{"message": {"data": "%%"}, "subscription": "s"}',
     b'{"message": {"data": "e!30="}, "subscription": "s"}',
     b'{"message": {"data": "' + b64encode(b"[" * 90_000) + b'"}, "subscription": "s"}',
     b'{"message": {"data": "e30="}}', b'{"source": "aws.ecr", "detail": []}',
     b'{"type": "zotregistry.image.updated", "data": []}',
     b'{"domain": "docker"}'],
)  # fmt: skip
def test_refuses_what_is_none(body: bytes) -> None:
    with pytest.raises(UnreadableNotificationError):
        parse_notification(body)


@pytest.mark.parametrize(
    ("registry", "name"),
    [
        ("A.example.com ", "a.example.com"),
        ("docker.io", "registry-1.docker.io"),
        ("r.example.com:443", "r.example.com"),
        ("r.example.com:8443", "r.example.com:8443"),
        (ECR_HOST, ECR_HOST),
        ("123456789012.dkr-ecr.us-west-2.on.aws", ECR_HOST),
        ("123456789012.dkr.ecr-fips.us-west-2.amazonaws.com", ECR_HOST),
        (
            "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn",
            "123456789012.dkr.ecr.cn-north-1.amazonaws.com",
        ),
        ("23456789012.dkr.ecr.us-west-2.on.aws", "23456789012.dkr.ecr.us-west-2.on.aws"),
        (f"{ECR_HOST}.evil.example", f"{ECR_HOST}.evil.example"),
    ],
)
def test_a_registry_has_one_name(registry: str, name: str) -> None:
    assert canonical(registry) == name


_WORDS = st.sampled_from(
    ["message", "subscription", "push_data", "docker_url", "updated_tags", "domain", "event_type",
     "nodeId", "component", "asset", "detail", "source", "path", "repo_key", "repo_name", "request",
     "events", "event_data", "data", "type", "package", "registry_package", "package_version",
     "package_type", "package_url", "container_metadata", "tag", "target", "repository", "registry",
     "resources", "resource_url", "repo_full_name", "action", "name", "namespace", "owner"]
)  # fmt: skip
_TEXTS = st.sampled_from(["push", "PUSH_ARTIFACT", "container", "published", "ghcr.io/a/b:c"])
_LIKE_IT = st.recursive(
    JSON | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=6),
    max_leaves=20,
)


@given(_LIKE_IT, st.none() | st.just("zotregistry.image.updated") | st.text())
def test_never_raises_anything_else(payload: Any, event_type: str | None) -> None:
    try:
        found = parse_notification(json.dumps(payload).encode(), event_type)
    except UnreadableNotificationError:
        return
    assert all(push.repository for push in found.pushes)


@given(st.sampled_from(RECORDED), st.data())
def test_never_raises_anything_else_for_mangled_events(row: Recorded, data: st.DataObject) -> None:
    payload = data.draw(mangled(row.payload))
    with suppress(UnreadableNotificationError):
        parse_notification(json.dumps(payload).encode(), row.event_type)


def test_a_call_names_a_bounded_number_of_pushes() -> None:
    pushes = [event(repository="shop/app", tag=str(i)) for i in range(WEBHOOK_PUSHES + 1)]

    parse_notification(json.dumps({"events": pushes[1:]}).encode())
    with pytest.raises(UnreadableNotificationError, match="more than 1000 pushes"):
        parse_notification(json.dumps({"events": pushes}).encode())
    with pytest.raises(UnreadableNotificationError, match="more than 1000 pushes"):
        parse_notification(json.dumps([{"events": pushes[:600]}] * 2).encode())
    with pytest.raises(UnreadableNotificationError, match="more than 1000 pushes"):
        parse_notification(json.dumps(quay(updated_tags=["1"] * 1001)).encode())


def test_a_call_has_a_bounded_number_of_events() -> None:
    known = {"repository": "a"}
    assert parse_notification(json.dumps([known, *[{}] * (WEBHOOK_PUSHES - 1)]).encode()).pushes
    with pytest.raises(UnreadableNotificationError, match="more than 1000 events"):
        parse_notification(json.dumps([known, *[{}] * WEBHOOK_PUSHES]).encode())


@pytest.mark.parametrize(
    "piece",
    [
        "[],",
        "{},",
        '{"a":1},',
        '{"action":"push","target":{}},',
    ],
)
@pytest.mark.parametrize(
    "start",
    [
        "[",
        '{"events":[',
        '{"type":"PUSH_ARTIFACT","event_data":{"resources":[',
        '{"docker_url":"quay.io/a","updated_tags":[',
        '{"message":{"data":[',
    ],
)
@pytest.mark.parametrize("form", [False, True], ids=["json", "form"])
def test_no_body_takes_a_long_step(piece: str, start: str, form: bool) -> None:
    times = (WEBHOOK_BODY_BYTES - 100) // len(piece)
    end = "".join({"[": "]", "{": "}"}[sign] for sign in reversed(start) if sign in "[{")
    body = f"{start}{(piece * times)[:-1]}{end}".encode()
    if form:
        whole = b"payload=" + b"".join(b"%%%02x" % sign for sign in body[: WEBHOOK_BODY_BYTES // 3])
        body = whole[:WEBHOOK_BODY_BYTES]

    def read() -> None:
        with suppress(UnreadableNotificationError):
            parse_notification(body)

    assert_quick(read, STEP_SECONDS)


def test_no_base64_takes_a_long_step() -> None:
    data = b64encode(b"[" + b"{}," * 30_000 + b"{}]").decode()
    body = json.dumps({"message": {"data": data}, "subscription": "s"}).encode()
    assert len(body) < WEBHOOK_BODY_BYTES
    assert_quick(lambda: parse_notification(body), STEP_SECONDS)
