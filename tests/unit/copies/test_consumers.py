"""Which workloads use a copy, whether they are healthy, and how they are restarted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given

from copyrator.api import names
from copyrator.api.rollout import UNHEALTHY_BEFORE, Consumer, RolloutState
from copyrator.copies.rollout.steps import (
    RESTARTED_FOR,
    ConsumerState,
    RestartCause,
    names_used,
    newly_unhealthy,
    read_consumer,
    restart_patch,
    to_restart,
    unhealthy,
)
from hostile.mangled import JSON

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
CONTENT = "a" * 32


def used(kind: str, **spec: Any) -> set[str]:
    return set(names_used(kind, {"spec": spec})) - {""}


def containers(**fields: Any) -> list[dict[str, Any]]:
    return [{"name": "a"}, {"name": "b", **fields}]


@pytest.mark.parametrize(
    ("secret", "config"),
    [
        ({"secret": {"secretName": "x"}}, {"configMap": {"name": "x"}}),
        (
            {"projected": {"sources": [{}, {"secret": {"name": "x"}}]}},
            {"projected": {"sources": [{"configMap": {"name": "x"}}]}},
        ),
    ],
)
def test_volumes(secret: dict[str, Any], config: dict[str, Any]) -> None:
    assert used("Secret", volumes=[{"emptyDir": {}}, secret]) == {"x"}
    assert used("ConfigMap", volumes=[config]) == {"x"}
    assert used("Secret", volumes=[config]) == set()
    assert used("ConfigMap", volumes=[secret]) == set()


@pytest.mark.parametrize("field", ["containers", "initContainers"])
def test_environment(field: str) -> None:
    one = containers(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "x", "key": "k"}}}])
    all_ = containers(envFrom=[{"secretRef": {"name": "x"}}])
    of_map = containers(env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "x"}}}])
    whole_map = containers(envFrom=[{"configMapRef": {"name": "x"}}])
    for found in (one, all_):
        assert used("Secret", **{field: found}) == {"x"}
        assert used("ConfigMap", **{field: found}) == set()
    for found in (of_map, whole_map):
        assert used("ConfigMap", **{field: found}) == {"x"}
        assert used("Secret", **{field: found}) == set()


def test_pull_secrets_and_service_accounts() -> None:
    spec: dict[str, Any] = {"imagePullSecrets": [{"name": "x"}], "serviceAccountName": "y"}
    assert used("Secret", **spec) == {"x"}
    assert used("ServiceAccount", **spec) == {"y"}
    assert used("ConfigMap", **spec) == set()


def workload(ready: int = 1, **annotations: str) -> dict[str, Any]:
    counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    marks = {f"copyrator.flant.com/{k.replace('_', '-')}": v for k, v in annotations.items()}
    return {
        "metadata": {
            "name": "web",
            "namespace": "team-a",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": marks,
        },
        "spec": {"replicas": 1, "template": {"spec": {"imagePullSecrets": [{"name": "x"}]}}},
        "status": {
            **dict.fromkeys(counts, ready),
            "conditions": [{"type": "Available", "status": "True"}],
        },
    }


def read(body: dict[str, Any], kind: str = "Deployment") -> ConsumerState | None:
    return read_consumer(kind, body, ("Secret", frozenset({"x"})))


def test_a_workload_that_uses_no_copy_is_no_consumer() -> None:
    assert read_consumer("Deployment", workload(), ("Secret", frozenset({"y"}))) is None
    assert read_consumer("Deployment", workload(), ("ConfigMap", frozenset({"x"}))) is None


def test_what_is_read_of_a_consumer() -> None:
    assert read(workload()) == ConsumerState(
        Consumer("team-a", "Deployment", "web"),
        healthy=True,
        lacks="Current",
        created=datetime(2026, 1, 1, tzinfo=UTC),
    )
    broken = read(workload(ready=0))
    assert broken is not None
    assert (broken.healthy, broken.lacks) == (False, "Replicas: 0/1")


@pytest.mark.parametrize(
    ("message", "lacks"),
    [
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 200 + "…"),
        ("a\nb\x1b[31m", "a b [31m"),
        ("", "Failed"),
    ],
)
def test_anothers_message_is_one_short_line(message: str, lacks: str) -> None:
    body = workload()
    stalled = {"type": "Stalled", "status": "True", "message": message}
    body["status"]["conditions"] = [stalled]
    found = read(body)
    assert found is not None
    assert (found.healthy, found.lacks, found.matters) == (False, lacks, True)


def test_most_consumers_do_not_matter() -> None:
    healthy, restarted = read(workload()), read(workload(restart="true"))
    assert healthy is not None
    assert restarted is not None
    assert (healthy.matters, restarted.matters) == (False, True)


def test_one_that_is_being_deleted_counts_as_gone() -> None:
    body = workload(ready=0, restart="true")
    body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = read(body)
    assert found is not None
    assert (found.healthy, found.may_restart) == (True, False)


@pytest.mark.parametrize(
    ("annotations", "paused", "restarts"),
    [
        ({}, False, False),
        ({"restart": "true"}, False, True),
        ({"restart": "yes"}, False, False),
        ({"restart": "true"}, True, False),
        ({"restart": "true", "restarted_for": f"ops/b=b,ops/a={CONTENT}"}, False, False),
        ({"restart": "true", "restarted_for": f"ops/b={CONTENT},x"}, False, True),
        ({"restart": "true", "restarted_for": "ops/a=b"}, False, True),
    ],
)
def test_who_is_restarted(annotations: dict[str, str], paused: bool, restarts: bool) -> None:
    body = workload(**annotations)
    body["spec"]["paused"] = paused
    one = read(body)
    assert one is not None
    assert to_restart(RestartCause("ops/a", CONTENT), [one]) == ([one] if restarts else [])


@pytest.mark.parametrize(
    ("mark", "restarts"), [(None, False), (f"ops/a={CONTENT}", False), ("ops/a=b", True)]
)
def test_a_change_back_restarts_those_that_had_the_other_content(
    mark: str | None, restarts: bool
) -> None:
    one = read(workload(restart="true", **({"restarted_for": mark} if mark else {})))
    assert one is not None
    assert bool(to_restart(RestartCause("ops/a", CONTENT, back=True), [one])) is restarts


def test_a_restart_is_kubectls_with_a_mark_of_bounded_length() -> None:
    earlier = {"ops/a": "old", **{f"ops/{number}": "x" for number in range(50)}}
    one = ConsumerState(Consumer("a", "Deployment", "b"), restarted_for=earlier)
    patch = restart_patch(one, RestartCause("ops/a", CONTENT), NOW)
    assert patch["spec"] == {
        "template": {
            "metadata": {
                "annotations": {"kubectl.kubernetes.io/restartedAt": "2026-01-01T12:00:00Z"}
            }
        }
    }
    marks = patch["metadata"]["annotations"][names.ANN_RESTARTED_FOR].split(",")
    others = [f"ops/{number}=x" for number in range(50)]
    assert marks == [*others[1 - RESTARTED_FOR :], f"ops/a={CONTENT}"]
    again = ConsumerState(one.consumer, restarted_for={"ops/a": "old", "ops/b": "ops/a"})
    patch = restart_patch(again, RestartCause("ops/a", CONTENT), NOW)
    marks = patch["metadata"]["annotations"][names.ANN_RESTARTED_FOR]
    assert marks == f"ops/b=ops/a,ops/a={CONTENT}"


def seen(name: str, *, healthy: bool = False, created: datetime | None = None) -> ConsumerState:
    return ConsumerState(Consumer("team-a", "Deployment", name), healthy, created=created)


def test_only_consumers_that_were_healthy_before_stop_a_rollout() -> None:
    state = RolloutState(
        CONTENT, step=1, started_at=NOW, unhealthy_before=("team-a/Deployment/ill",)
    )
    late = NOW + timedelta(seconds=1)
    assert (
        newly_unhealthy(state, [seen("well", healthy=True), seen("ill"), seen("new", created=late)])
        is None
    )
    found = newly_unhealthy(state, [seen("z"), seen("b", created=NOW), seen("ill")])
    assert found is not None
    assert found.consumer.name == "b"


def test_the_status_holds_a_limited_number() -> None:
    many = [seen(f"web-{number:03}") for number in range(300)]
    found = unhealthy([*reversed(many), seen("a", healthy=True)])
    assert len(found) == UNHEALTHY_BEFORE
    assert found[0] == "team-a/Deployment/web-000"


@given(JSON)
def test_no_manifest_breaks_it(value: Any) -> None:
    template = {"spec": value if isinstance(value, dict) else {"volumes": value}}
    body = {"metadata": {"annotations": value}, "spec": {"template": template}, "status": value}
    for kind in ("Secret", "ConfigMap", "ServiceAccount"):
        list(names_used(kind, template))
        read_consumer("Deployment", body, (kind, frozenset({"", "x"})))
        read_consumer("StatefulSet", {"spec": value}, (kind, frozenset({"x"})))
