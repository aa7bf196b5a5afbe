"""A real registry tells the operator what was pushed, and it is deployed without a poll's wait."""

import json
import re
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.e2e.bundles.conftest import NOWHERE, Operator, Team, operating
from tests.e2e.operator_process import DIRECT, until

from localcluster import Api, Cluster
from localcluster.build import Programs
from localcluster.bundle import push

SECRET = "only-they-know"


@pytest.fixture(scope="module")
def operator(
    cluster: Cluster, api: Api, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    """An operator that polls once an hour and listens to registries."""
    directory = tmp_path_factory.mktemp("operator")
    (directory / "secret").write_text(SECRET)
    log = directory / "operator.log"
    settings = {
        "WERF_OPERATOR_TIMER_INTERVAL": "3600",
        "COPYRATOR_WEBHOOK_PORT": "0",
        "COPYRATOR_WEBHOOK_SECRET_FILE": str(directory / "secret"),
    }
    with operating(cluster, log, settings) as operator:
        yield operator
    assert SECRET not in log.read_text()


@pytest.fixture(scope="module")
def hook(operator: Operator) -> str:
    found = re.search(r"Webhook on (http://\S+)", operator.log.read_text())
    assert found
    return found[1]


@pytest.fixture(scope="module")
def talking(hook: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`host:port` of a distribution registry of its own that notifies the operator."""
    directory = tmp_path_factory.mktemp("registry")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    endpoint = {
        "name": "copyrator",
        "url": hook,
        "headers": {"Authorization": [f"Bearer {SECRET}"]},
        "timeout": "5s",
        "threshold": 3,
        "backoff": "1s",
    }
    config = {
        "version": "0.1",
        "storage": {"filesystem": {"rootdirectory": str(directory / "data")}},
        "http": {"addr": f"127.0.0.1:{port}", "secret": "x"},
        "notifications": {"endpoints": [endpoint]},
    }
    (directory / "config.yaml").write_text(yaml.safe_dump(config))
    program = Programs.default().find(("registry",))["registry"]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(program), "serve", str(directory / "config.yaml")], stdout=log, stderr=log
        )
    try:
        until(lambda: answers(f"http://127.0.0.1:{port}/v2/"), "the registry answers")
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def answers(url: str) -> bool:
    try:
        with DIRECT.open(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def publish(team: Team, registry: str, tag: str, text: str) -> str:
    chart: Path = team.charts / f"{tag}-{text}"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: app\nversion: 0.1.0\n")
    (chart / "templates" / "app.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-app'}\n"
        f"data: {{text: {text}}}\n"
    )
    return push(chart, registry, team.repo, tag)


def call(url: str, body: object, secret: str = SECRET) -> int:
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with DIRECT.open(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_push_to_a_registry_that_notifies_is_deployed_without_a_poll(
    team: Team, talking: str
) -> None:
    team.bundle("shop", registry=talking, job=NOWHERE)
    team.wait_reason("shop", "TagNotFound")

    digest = publish(team, talking, "1.0.0", "first")

    team.first_job()  # the next poll is up to an hour away
    assert team.status("shop")["attempted"]["digest"] == digest


def test_a_push_that_is_told_has_its_job_after_three_requests(
    team: Team, hook: str, operator: Operator
) -> None:
    """How long that takes is the machine's; `make bench BENCH=push` measures it.

    A forged call deploys nothing, nor does one that doesn't concern the Bundle.
    """
    team.bundle("shop")
    team.wait_reason("shop", "TagNotFound")
    requests = team.cluster.requests()
    first = team.publish("1.0.0", "first")
    pushed = {"registry": team.cluster.registry, "repository": team.repo, "tag": "1.0.0"}
    assert call(hook, pushed) == 202
    team.first_job()
    before_the_job = [
        (event.verb, event.resource)
        for event in requests.all(user=operator.user, namespace=team.namespace)
        if event.verb != "watch" and event.resource != "events"
    ]
    assert before_the_job[:3] == [
        ("get", "serviceaccounts"),
        ("patch", "bundles"),
        ("create", "jobs"),
    ]
    team.wait_deployed("shop", first)

    forged = {
        "action": "push",
        "target": {"repository": team.repo, "tag": "1.0.0", "digest": "sha256:" + "0" * 64},
        "request": {"host": "evil.example"},
    }
    for _ in range(5):
        assert call(hook, {"events": [forged]}) == 202
        assert call(hook, forged) == 202  # in Azure's form, of another host
    second = team.publish("1.0.0", "second")
    assert call(hook, pushed | {"tag": "2.0.0"}) == 202
    assert call(hook, pushed | {"repository": "another"}) == 202
    assert call(hook, pushed, secret="wrong") == 401
    assert call(hook, ["nonsense"]) == 400
    assert team.status("shop")["target"]["digest"] == first

    assert call(hook, {**forged, "request": {"host": team.cluster.registry}}) == 202
    team.wait_deployed("shop", second)  # whatever the calls before led to is done before this
    digests = [one["digest"] for one in team.status("shop")["history"]]
    assert digests == [second, first], "the forged one was never tried"
    assert len(team.jobs("shop")) == 2
