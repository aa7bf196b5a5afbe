"""People are told what happens, by a real operator under the chart's rights."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import signal
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.e2e.bundles.conftest import Operator, Team, operating
from tests.e2e.copies.conftest import User, encoded
from tests.e2e.copies.test_rollouts import consumer, healthy
from tests.e2e.faults.fleet import BROKEN
from tests.e2e.operator_process import OperatorProcess, until

from copyrator.cli import cli
from localcluster import Cluster
from localcluster.signing import PRIVATE, self_signed

KEY = b"a key"
ENTRIES = [
    {
        "name": "ci",
        "urlFrom": {"secretName": "receivers", "key": "ci"},
        "signWith": {"secretName": "receivers", "key": "ci-key"},
    },
    {
        "name": "chat",
        "urlFrom": {"secretName": "receivers", "key": "chat"},
        "about": ["AwaitingApproval", "DeployFailed"],
    },
    {"name": "gone", "urlFrom": {"secretName": "no-such", "key": "url"}, "about": ["Frozen"]},
]


class Receiver:
    """A server in a thread: webhooks of CloudEvents below /ci, Mattermost's elsewhere."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.chat: list[str] = []
        self.forged = 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/ci":
                    expected = hmac.new(KEY, body, hashlib.sha256).hexdigest()
                    receiver.forged += self.headers["X-Signature"] != f"sha256={expected}"
                    receiver.events.append(json.loads(body))
                else:
                    receiver.chat.append(json.loads(body)["text"])
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def told(self, about: str, name: str, *, resolved: bool = False) -> list[dict[str, Any]]:
        """The transitions of a kind about an object, in all events."""
        return [
            one
            for event in self.events
            for one in event["data"]["transitions"]
            if (one["about"], one["name"], one["resolved"]) == (about, name, resolved)
        ]

    def wait_told(self, about: str, name: str, *, resolved: bool = False) -> dict[str, Any]:
        until(
            lambda: self.told(about, name, resolved=resolved),
            lambda: f"{about} of {name} is told; {json.dumps(self.events)}",
        )
        return self.told(about, name, resolved=resolved)[-1]


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    yield found
    found.stop()


@pytest.fixture(scope="module")
def operator(
    cluster: Cluster, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    values = {
        "notifications.entries": ENTRIES,
        "notifications.link": "https://ui.example.com/{kind}/{namespace}/{name}",
        "rules.consumers": True,
        "rules.restart": True,
    }
    settings = {"COPYRATOR_ROLLOUT_HEALTH_PAUSE": "3"}
    with operating(cluster, log, settings, values=values) as operator:
        data = {
            "ci": f"http://127.0.0.1:{receiver.port}/ci",
            "ci-key": KEY.decode(),
            "chat": f"mmost://127.0.0.1:{receiver.port}/token-abc",
        }
        secret = {"metadata": {"name": "receivers"}, "stringData": data}
        cluster.api().create(f"/api/v1/namespaces/{operator.namespace}/secrets", secret)
        path = f"/api/v1/namespaces/{operator.namespace}/configmaps"
        marks = "metadata.name=copyrator-notification-marks"
        begun = lambda: cluster.api().get(path, fieldSelector=marks)["items"]  # noqa: E731
        until(begun, "the entries have begun")
        yield operator
        assert "token-abc" not in operator.log.read_text()
        assert receiver.forged == 0


def types(operator: Operator, command: str, code: int = 0) -> str:
    environment = {
        "KUBECONFIG": operator.cluster.environment()["KUBECONFIG"],
        "COPYRATOR_OPERATOR_NAMESPACE": operator.namespace,
        "COLUMNS": "300",
    }
    done = CliRunner().invoke(cli, command.split(), env=environment)
    assert done.exit_code == code, f"{command}\n{done.output}"
    return str(done.output)


def test_approval_deploy_failure_and_recovery_are_told_each_once(
    operator: Operator, receiver: Receiver, team: Team
) -> None:
    team.publish("1.0.0", "first")
    team.bundle("shop", version="1.*", approval={"mode": "Always"}, retry={"limit": 0})
    waits = receiver.wait_told("AwaitingApproval", "shop")
    assert waits["what"].startswith("waits for approval of 1.0.0 (1 create")
    plan = team.status("shop")["plan"]["id"]
    assert waits["command"] == f"copyrator approve bundle -n {team.namespace} shop {plan}"
    assert waits["link"] == f"https://ui.example.com/Bundle/{team.namespace}/shop"
    until(lambda: any(plan in text for text in receiver.chat), "the chat is told, too")

    types(operator, f"{waits['command'].removeprefix('copyrator ')} --yes")
    told = receiver.wait_told("Deployed", "shop")
    assert told["what"].startswith("runs 1.0.0")

    team.publish("1.0.0", "broken", repo="broken/app", template=BROKEN)
    team.bundle("bad", repo="broken/app", version="1.*", retry={"limit": 0})
    receiver.wait_told("DeployFailed", "bad")
    receiver.wait_told("Quarantined", "bad")
    team.publish("1.0.1", "mended", repo="broken/app")
    receiver.wait_told("DeployFailed", "bad", resolved=True)
    receiver.wait_told("Deployed", "bad")
    assert len(receiver.told("AwaitingApproval", "shop")) == 1
    assert len(receiver.told("DeployFailed", "bad")) == 1


def test_a_killed_operator_loses_nothing_and_repeats_at_most_one_message(
    operator: Operator, receiver: Receiver, team: Team
) -> None:
    team.publish("1.0.0", "first")
    team.bundle("shop")
    until(lambda: team.status("shop").get("deployed"), "it is deployed")
    operator.stop(signal.SIGKILL)  # within the two seconds in which messages are collected
    operator.start()
    receiver.wait_told("Deployed", "shop")
    team.bundle("later")
    receiver.wait_told("Deployed", "later")
    found = [one for one in receiver.told("Deployed", "shop") if one["namespace"] == team.namespace]
    assert 1 <= len(found) <= 2
    if len(found) == 2:
        assert found[0]["id"] == found[1]["id"]


def test_a_standby_tells_what_the_killed_leader_did_not(
    operator: Operator, receiver: Receiver, team: Team, tmp_path: Path
) -> None:
    settings = {**operator.settings, "NAMESPACE": operator.namespace, "POD_NAME": "copyrator-1"}
    with OperatorProcess(operator.kubeconfig, tmp_path / "standby.log", settings=settings) as other:
        other.wait_ready()
        name = f"shop-{team.namespace}"
        team.publish("1.0.0", "first")
        team.bundle(name)
        until(lambda: team.status(name).get("deployed"), "the leader has deployed it")
        operator.stop(signal.SIGKILL)
        receiver.wait_told("Deployed", name)
        assert len({one["id"] for one in receiver.told("Deployed", name)}) == 1
        assert len(receiver.told("Deployed", name)) <= 2
        assert other.stop() == 0
    operator.start()


def test_a_certificate_that_ends_soon_is_told(
    operator: Operator, receiver: Receiver, team: Team
) -> None:
    ends = datetime.now(UTC) + timedelta(days=3)
    text = self_signed("api", begins=ends - timedelta(days=365), ends=ends)
    data = {"tls.crt": text, "tls.key": PRIVATE}
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    name, home = f"tls-{team.namespace}", operator.namespace
    secret = {"metadata": {"name": name}, "type": "kubernetes.io/tls", "data": encoded}
    team.api.create(f"/api/v1/namespaces/{home}/secrets", secret)
    spec = {"source": {"kind": "Secret", "name": name}, "targets": {"namespaces": [team.namespace]}}
    rule = {"apiVersion": "flant.com/v1", "kind": "CopyratorRule", "spec": spec}
    path = f"/apis/flant.com/v1/namespaces/{home}/copyrators"
    team.api.create(path, {**rule, "metadata": {"name": name}})
    told = receiver.wait_told("CertificateExpiring", name)
    assert told["kind"] == "CopyratorRule"
    assert told["what"] == "copies a certificate that ends soon"
    assert "api" in told["why"]
    team.api.delete(f"{path}/{name}")


def test_a_rollout_that_has_stopped_is_told_and_that_it_goes_on(
    operator: Operator, receiver: Receiver, team: Team
) -> None:
    user, name, home = User(team.api), f"pw-{team.namespace}", operator.namespace
    user.create("secrets", home, name, data=encoded(password="old"))
    rollout = {"steps": ["100%"], "pause": "1s", "health": True, "restart": "Consumers"}
    spec = {
        "source": {"kind": "Secret", "name": name},
        "targets": {"namespaces": [team.namespace]},
        "rollout": rollout,
    }
    user.rule(home, name, spec)
    user.wait_ready(home, name)
    consumer(user, team.namespace, name, **{"copyrator.flant.com/restart": "true"})
    until(lambda: healthy(user, team.namespace), "the consumer runs")
    user.patch("secrets", home, name, data=encoded(password="bad"))
    told = receiver.wait_told("RolloutStopped", name)
    assert told["command"] == f"copyrator rollout resume rule {home}/{name}"
    assert f"Deployment {team.namespace}/web isn't healthy" in told["why"]
    user.patch("secrets", home, name, data=encoded(password="good"))
    receiver.wait_told("RolloutStopped", name, resolved=True)
    user.delete("copyrators", home, name)


def test_the_commands_test_an_entry_and_say_what_is_wrong_with_another(
    operator: Operator, receiver: Receiver
) -> None:
    assert types(operator, "notify test chat") == "A test message was sent to chat.\n"
    assert any("This is a test of the entry chat" in text for text in receiver.chat)
    assert "can't be read: NotFound" in types(operator, "notify test gone", code=1)
    said = types(operator, "notify test other", code=1)
    assert "has no valid entry other; valid ones: ci, chat, gone" in said
    said = types(operator, "doctor", code=1)
    assert f"FAIL Notifications: gone: Secret {operator.namespace}/no-such doesn't exist" in said
