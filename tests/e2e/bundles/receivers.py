"""An operator that sends notifications, the hosts that receive them, and its settings."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from functools import partial
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword
from apprise import AppriseAsset
from bench.rig import free_port
from click.testing import CliRunner
from tests.clouds.stage import Answer, Asked, Stage
from tests.e2e.bundles.conftest import Operator, operating
from tests.e2e.operator_process import until

from copyrator.cli import cli
from demo.chart import ROOT
from localcluster import Cluster

KEY = b"a key"
TOKENS = "TAAAAAAAA/BAAAAAAAA/" + "c" * 24
MAIL = "ops@example.com"
URLS = {
    "ci": "https://ci.example.com/hooks/copyrator",
    "ci-key": KEY.decode(),
    "chat": "mmosts://chat.example.com/token-abc",
    "slack": f"slack://{TOKENS}",
    "mail": f"mailtos://copyrator:token-abc@mail.example.com?from=copyrator@example.com&to={MAIL}",
}
SERVICES = ("chat", "slack", "mail")
SOME = ["AwaitingApproval", "DeployFailed", "SourceUnreachable"]


COLOURS = tuple(AppriseAsset().color(one) for one in ("info", "failure", "failure", "success"))
"""Of the messages that the docs show, in Slack."""


def documented() -> list[str]:
    """The messages that the docs show, as every service receives them: title and text."""
    page = (ROOT / "docs" / "notifications.md").read_text()
    shown = page.partition("<!-- messages: begin -->")[2].partition("<!-- messages: end -->")[0]
    found = re.findall(r"```text\n(.*?)\n```", shown, re.DOTALL)
    assert len(found) == len(COLOURS)
    return found


def _entry(name: str, about: list[str], **more: Any) -> dict[str, Any]:
    return {"name": name, "urlFrom": {"secretName": "receivers", "key": name}, **more} | (
        {"about": about} if about else {}
    )


ENTRIES = [
    _entry("ci", [], signWith={"secretName": "receivers", "key": "ci-key"}),
    _entry("chat", SOME),
    _entry("slack", SOME),
    _entry("mail", SOME),
    {"name": "gone", "urlFrom": {"secretName": "no-such", "key": "url"}, "about": ["Frozen"]},
]


@dataclass
class Receiver:
    """The hosts of the entries: a webhook of CloudEvents, Mattermost, Slack, a mail server."""

    events: list[dict[str, Any]] = field(default_factory=list)
    chat: list[dict[str, Any]] = field(default_factory=list)
    slack: list[dict[str, Any]] = field(default_factory=list)
    mails: list[EmailMessage] = field(default_factory=list)
    forged: int = 0
    fails: bool = False
    """All but the webhook answer that they are out of order."""
    refused: dict[str, str] = field(default_factory=dict)
    """The newest message that each of them refused, without what stops links."""

    def serve(self, stage: Stage) -> None:
        stage.serve("ci.example.com", self._webhook)
        stage.serve("chat.example.com", partial(self._service, self.chat, "/hooks/token-abc"))
        stage.serve("hooks.slack.com", partial(self._service, self.slack, f"/services/{TOKENS}"))

    def _webhook(self, asked: Asked) -> Answer | None:
        if asked.path != "/hooks/copyrator":
            return None
        signature = hmac.new(KEY, asked.body, hashlib.sha256).hexdigest()
        self.forged += asked.headers["X-Signature"] != f"sha256={signature}"
        self.events.append(json.loads(asked.body))
        return Answer(204)

    def _service(self, kept: list[dict[str, Any]], path: str, asked: Asked) -> Answer | None:
        if asked.path != path:
            return None
        body = json.loads(asked.body)
        if self.fails:
            self._refuse("chat" if kept is self.chat else "slack", str(body))
            return Answer(503, "out of order")
        kept.append(body)
        return Answer(200, "ok")

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        mail = message_from_bytes(envelope.content, policy=policy.default)
        if self.fails:
            self._refuse("mail", str(mail.get_content()))
            return "451 out of order"
        self.mails.append(mail)
        return "250 OK"

    def _refuse(self, service: str, text: str) -> None:
        self.refused[service] = text.replace("\u200b", "").replace("\\u200b", "")

    def authenticate(self, *asked: Any) -> AuthResult:
        """Let the user of the mail server in."""
        return AuthResult(success=asked[-1] == LoginPassword(b"copyrator", b"token-abc"))

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

    def messages(self, service: str) -> list[dict[str, str]]:
        """What people read there: title and text, and the colour where the service has any."""
        if service == "slack":
            found = [one["attachments"][0] for one in self.slack]
            return [
                {"title": one["title"], "text": one["text"], "colour": one["color"]}
                for one in found
            ]
        if service == "chat":
            pairs = [one["text"].split("\r\n", 1) for one in self.chat]
        else:
            pairs = [[str(one["Subject"]), str(one.get_content())] for one in self.mails]
        return [
            {"title": title, "text": text.replace("\r\n", "\n").strip()} for title, text in pairs
        ]

    def texts(self, service: str) -> list[str]:
        return [one["text"] for one in self.messages(service)]


@pytest.fixture(scope="module")
def cloud(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The receivers' hosts."""
    directory = tmp_path_factory.mktemp("receivers") / "stage"
    with Stage.running(directory, cluster.registry) as stage:
        yield stage


@pytest.fixture(scope="module")
def receiver(cloud: Stage) -> Iterator[Receiver]:
    found = Receiver()
    found.serve(cloud)
    mail = Controller(
        found,
        hostname="127.0.0.1",
        port=free_port(),
        tls_context=cloud.authority.context("mail.example.com"),
        require_starttls=True,
        authenticator=found.authenticate,
        auth_required=True,
    )
    mail.start()
    cloud.map("mail.example.com:587", (mail.hostname, mail.port))
    yield found
    mail.stop()


@pytest.fixture(scope="module")
def operator(
    cluster: Cluster, cloud: Stage, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    values = {
        "image.variant": "keyless",
        "notifications.entries": ENTRIES,
        "notifications.link": "https://copyrator.example.com/{kind}/{namespace}/{name}",
    }
    path = os.pathsep.join([cloud.environment["PYTHONPATH"], str(ROOT / "operator")])
    settings = {**cloud.environment, "PYTHONPATH": path}
    with operating(cluster, log, settings, values=values) as operator:
        secret = {"metadata": {"name": "receivers"}, "stringData": URLS}
        cluster.api().create(f"/api/v1/namespaces/{operator.namespace}/secrets", secret)
        path = f"/api/v1/namespaces/{operator.namespace}/configmaps"
        marks = "metadata.name=copyrator-notification-marks"
        begun = lambda: cluster.api().get(path, fieldSelector=marks)["items"]  # noqa: E731
        until(begun, "the entries have begun")
        yield operator
        said = operator.log.read_text()
        assert "token-abc" not in said
        assert TOKENS not in said
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
