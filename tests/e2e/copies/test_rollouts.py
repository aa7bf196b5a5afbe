"""Changed content in steps, on the real API server, with real consumers."""

import shlex
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from tests.e2e.copies.conftest import DATA, Operator, User, deploy, encoded, wait_quiet
from tests.e2e.documents import commands
from tests.e2e.operator_process import until

from copyrator.cli import cli
from demo.chart import ROOT
from localcluster import Cluster

APPS = "/apis/apps/v1/namespaces/{}/deployments"

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def operator(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """One operator of the file, which may read and restart consumers, and waits 3 s for health."""
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    flags = ("--rollout-health-pause", "3")
    with deploy(cluster, log, DATA, *flags, consumers=True, restart=True) as operator:
        operator.start()
        yield operator


class Fleet:
    """A rule, its source, and its target namespaces."""

    def __init__(self, operator: Operator, user: User, word: str) -> None:
        self.operator, self.user, self.word = operator, user, word
        self.home = operator.namespace
        self.spaces: list[str] = []

    def begin(self, spaces: list[str], **rollout: Any) -> None:
        self.spaces = sorted(spaces)
        data = encoded(password="old")
        self.user.create("secrets", self.home, self.word, data=data)
        spec = {
            "source": {"kind": "Secret", "name": self.word},
            "targets": {"namespaces": [f"{self.word}-*"]},
            "rollout": {"pause": "1s", **rollout},
        }
        self.user.rule(self.home, self.word, spec)
        self.user.wait_ready(self.home, self.word)

    def change(self, value: str) -> None:
        self.user.patch("secrets", self.home, self.word, data=encoded(password=value))

    def holding(self, value: str) -> list[str]:
        path = "/api/v1/secrets"
        found = self.user.api.get(path, fieldSelector=f"metadata.name={self.word}")["items"]
        wanted = encoded(password=value)
        return sorted(
            one["metadata"]["namespace"]
            for one in found
            if one["data"] == wanted and one["metadata"]["namespace"] != self.home
        )

    @property
    def rule(self) -> dict[str, Any]:
        return self.user.get("copyrators", self.home, self.word) or {}

    @property
    def rollout(self) -> dict[str, Any]:
        found: dict[str, Any] = self.rule.get("status", {}).get("rollout", {})
        return found

    def at_step(self, step: int, value: str, *spaces: str) -> None:
        """It was written, and nothing else was."""

        def look() -> bool:
            rollout = self.rollout
            waits = rollout.get("step") == step and "nextAt" in rollout
            return waits and self.holding(value) == sorted(spaces)

        until(look, lambda: f"step {step}: {self.rollout}, in {self.holding(value)}")

    def done(self, value: str) -> None:
        def look() -> bool:
            ready = self.user.condition(self.home, self.word).get("status") == "True"
            return ready and "step" not in self.rollout and self.holding(value) == self.spaces

        until(look, lambda: f"done: {self.rollout}")

    def types(self, command: str, code: int = 0) -> str:
        """Type a command of ours."""
        environment = {"KUBECONFIG": str(self.operator.cluster.admin_kubeconfig), "COLUMNS": "200"}
        result = CliRunner().invoke(cli, command.split(), env=environment)
        assert result.exit_code == code, result.output
        return result.output


@pytest.fixture
def fleet(operator: Operator, user: User, word: str) -> Fleet:
    return Fleet(operator, user, word)


def consumer(user: User, namespace: str, secret: str, **annotations: str) -> None:
    """A Deployment whose pod ends if the password is ``bad``."""
    script = 'test "$PASSWORD" != bad && exec sleep 3600'
    reference = {"secretKeyRef": {"name": secret, "key": "password"}}
    container = {
        "name": "main",
        "image": "web",
        "command": ["sh", "-c", script],
        "env": [{"name": "PASSWORD", "valueFrom": reference}],
    }
    pod = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    body = {
        "metadata": {"name": "web", "annotations": annotations},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod},
        },
    }
    user.api.create(APPS.format(namespace), body)


def web(user: User, namespace: str) -> dict[str, Any]:
    found: dict[str, Any] = user.api.get(f"{APPS.format(namespace)}/web")
    return found


def healthy(user: User, namespace: str) -> bool:
    body = web(user, namespace)
    status, counts = body.get("status", {}), ("replicas", "updatedReplicas", "availableReplicas")
    same = status.get("observedGeneration") == body["metadata"]["generation"]
    return same and all(status.get(one) == 1 for one in counts)


def test_consumers_that_fail_with_the_new_content_stop_it_after_the_first_step(
    fleet, user, word, namespace
):
    """Their pods are real processes: the password `bad` ends them."""
    spaces = sorted(namespace(f"{word}-{number}") for number in range(3))
    fleet.begin(spaces, steps=["1", "100%"], health=True, restart="Consumers")
    for space in spaces:
        consumer(user, space, word, **{"copyrator.flant.com/restart": "true"})
    for space in spaces:
        until(lambda at=space: healthy(user, at), f"the consumer in {space} runs")
    wait_quiet(fleet.operator, fleet.home, *spaces)
    since = fleet.operator.cluster.audit_offset()
    fleet.change("bad")
    user.wait_reason(fleet.home, word, "RolloutStopped")
    stopped = fleet.rollout["stopped"]
    assert (stopped["namespace"], stopped["kind"], stopped["name"]) == (
        spaces[0],
        "Deployment",
        "web",
    )
    assert user.condition(fleet.home, word, "Stalled")["status"] == "True"
    assert fleet.holding("bad") == spaces[:1]
    assert all(healthy(user, space) for space in spaces[1:])
    mine = [
        event
        for event in fleet.operator.cluster.audit_events(since)
        if event.user == fleet.operator.user
    ]
    patched = [
        (one.namespace, one.resource)
        for one in mine
        if one.resource == "deployments" and one.verb == "patch"
    ]
    assert patched == [(spaces[0], "deployments")]
    lists = Counter((one.namespace, one.resource) for one in mine if one.verb == "list")
    kinds = ("deployments", "statefulsets", "daemonsets")
    assert lists == {(spaces[0], kind): 3 for kind in kinds}  # before, to restart, after

    def events() -> list[str]:
        path = f"/apis/events.k8s.io/v1/namespaces/{fleet.home}/events"
        items = user.api.get(path)["items"]
        return [one["type"] for one in items if one.get("reason") == "RolloutStopped"]

    until(lambda: events() == ["Warning"], "an Event")
    fleet.change("good")  # the repaired one
    fleet.done("good")
    assert all(healthy(user, space) for space in spaces)


def with_names(command: str, names: dict[str, str]) -> str:
    """A command with other names of objects."""
    if command.startswith("kubectl"):  # its names have no namespace
        command = command.replace("copyrator/db-password", "copyrators/db-password")
    for name, own in names.items():
        command = command.replace(name, own)
    return command


def test_the_commands_of_the_document_work_one_after_the_other(
    operator, user, word, namespace, tmp_path
):
    """docs/rollouts.md, with the names of this test's namespaces in place of its own."""
    spaces = sorted(namespace(f"{word}-{letter}", labels={"app": word}) for letter in "ab")
    for space in spaces:
        consumer(user, space, "db-password")
    text = (ROOT / "examples" / "rules" / "rollout.yaml").read_text()
    text = text.replace("namespace: copyrator", f"namespace: {operator.namespace}")
    manifest = tmp_path / "rollout.yaml"
    manifest.write_text(text.replace("team-*", f"{word}-*"))
    fleet = Fleet(operator, user, "db-password")
    fleet.spaces = spaces
    names = {
        "examples/rules/rollout.yaml": str(manifest),
        "copyrator/db-password": f"{fleet.home}/db-password",
        "-n copyrator": f"-n {fleet.home}",
        "team-a": spaces[1],
    }
    typed = commands("docs/rollouts.md")
    assert typed[-1].startswith("copyrator rollout finish")
    for command in typed:
        program, *words = shlex.split(with_names(command, names))
        if program == "kubectl":
            operator.cluster.kubectl(*words)
            if "patch" in words:
                fleet.at_step(1, "changed", spaces[1])
        else:
            said = fleet.types(shlex.join(words))
            assert "describe" not in words or "1 of 4, its pause ends at" in said
    fleet.done("changed")
    pods = [web(user, space)["spec"]["template"]["metadata"] for space in spaces]
    assert ["annotations" in one for one in pods] == [False, True]  # the other didn't ask for it
    user.delete("copyrators", fleet.home, "db-password")
