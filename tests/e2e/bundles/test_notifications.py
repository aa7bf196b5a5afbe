"""People are told what happens, by a real operator under the chart's rights."""

from __future__ import annotations

import base64
import json
import re
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.clouds.stage import Answer, Asked, Stage
from tests.e2e.bundles.conftest import TEMPLATE, Operator, Team
from tests.e2e.bundles.features.attest.test_attest import attest, make_key
from tests.e2e.bundles.receivers import (
    COLOURS,
    SERVICES,
    URLS,
    Receiver,
    Settings,
    cloud,
    documented,
    operator,
    receiver,
    types,
)
from tests.e2e.copies.conftest import User, encoded
from tests.e2e.copies.test_rollouts import consumer, healthy
from tests.e2e.faults.fleet import BROKEN
from tests.e2e.operator_process import OperatorProcess, until
from tests.kubeconfigs import kubeconfig_data, token_until
from tests.long import LONG

from copyrator.api.reasons.notices import About
from copyrator.notify.config import SubjectKind, read_config
from copyrator.notify.marks import NOTIFICATION_MARKS
from demo.chart import ROOT, render
from localcluster.signing import PRIVATE, self_signed


def test_approval_deploy_failure_and_recovery_are_told_each_once(
    operator: Operator, receiver: Receiver, team: Team
) -> None:
    team.publish("1.0.0", "first")
    team.bundle("shop", version="1.*", approval={"mode": "Always"}, retry={"limit": 0})
    waits = receiver.wait_told("AwaitingApproval", "shop")
    assert waits["what"].startswith("waits for approval of 1.0.0 (1 create")
    plan = team.status("shop")["plan"]["id"]
    assert waits["command"] == f"copyrator approve bundle -n {team.namespace} shop {plan}"
    assert waits["link"] == f"https://copyrator.example.com/Bundle/{team.namespace}/shop"
    until(
        lambda: all(any(plan in text for text in receiver.texts(one)) for one in SERVICES),
        lambda: f"the others are told, too; {receiver}",
    )

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


__all__ = ["cloud", "operator", "receiver"]

TWO_AND_A_VOLUME = f"""{TEMPLATE}---
apiVersion: v1
kind: ConfigMap
metadata: {{name: other}}
data: {{text: TEXT}}
"""
VOLUME = """---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
"""


@pytest.fixture(scope="module")
def messages(
    operator: Operator, receiver: Receiver, lasting_team: Team
) -> dict[str, list[dict[str, str]]]:
    """What each service received of one story, as in the docs: in the namespace prod."""
    team = lasting_team

    def got(service: str) -> list[dict[str, str]]:
        """Without tests, and what comes late of earlier tests."""
        found = receiver.messages(service)
        return [one for one in found if team.namespace in one["text"].replace("\u200b", "")]

    def wait(number: int) -> None:
        for one in SERVICES:
            until(lambda one=one: len(got(one)) >= number, f"{one}: {number}")

    team.publish("1.8.0", "first", template=TWO_AND_A_VOLUME + VOLUME)
    team.bundle("shop", version="1.*")
    volume = team.path("persistentvolumeclaims", "data")
    until(lambda: team.get("persistentvolumeclaims", "data"), "it has a volume")
    team.api.patch(f"{volume}/status", {"status": {"phase": "Bound"}})  # no controller does here
    until(lambda: team.status("shop").get("deployed"), "it is deployed")
    team.patch("bundles", "shop", spec={"approval": {"mode": "OnRisk"}})
    team.publish("1.9.0", "second", template=TWO_AND_A_VOLUME)
    wait(1)
    team.publish("2.1.0", "broken", repo="broken/web", template=BROKEN)
    team.bundle("web", repo="broken/web", version="2.*", retry={"limit": 3, "backoff": "1h"})
    wait(2)
    receiver.fails = True  # so that what happens meanwhile is one message
    for name in "abcde":
        team.bundle(name, repo=f"none/{name}")
    names = [f"{team.namespace}/{name}" for name in "abcde"]
    for one in SERVICES:  # a slow message that began with fewer of them would be taken now
        refused = partial(receiver.refused.get, one, "")
        until(lambda refused=refused: all(name in refused() for name in names), f"{one}: all")
    receiver.fails = False
    for one in SERVICES:
        types(operator, f"notify test {one}")  # then what failed is tried again at once
    wait(3)
    team.publish("2.1.1", "mended", repo="broken/web")
    wait(4)
    return {
        service: [
            {key: _as_in_the_docs(text, team.namespace) for key, text in one.items()}
            for one in got(service)
        ]
        for service in SERVICES
    }


def _as_in_the_docs(text: str, namespace: str) -> str:
    """Without what stops links, and with the docs' namespace, plan and time."""
    text = text.replace("\u200b", "").replace(namespace, "prod")
    text = re.sub(r"\b[0-9a-f]{32}\b", "3f46bdff" * 4, text)
    return re.sub(r"\b20\d\d-\d\d-\d\dT[0-9:]+Z", "2026-11-27T12:00:00Z", text)


def test_the_docs_show_what_each_service_receives(messages: dict[str, Any]) -> None:
    expected = documented()
    for service in SERVICES:
        found = [f"{one['title']}\n{one['text']}" for one in messages[service]]
        assert found == expected, service
    colours = [one["colour"] for one in messages["slack"]]
    assert len(set(colours)) == 3, "waits, failed (twice) and resolved"
    assert colours[1] == colours[2]
    assert colours == list(COLOURS)


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
    log = tmp_path / "standby.log"
    with OperatorProcess(operator.kubeconfig, log, settings=settings) as other:
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


def test_what_is_attested_is_told_and_what_is_withdrawn(
    operator: Operator, receiver: Receiver, team: Team
) -> None:
    name = f"staging-{team.namespace}"
    make_key(team, "staging")
    team.publish("1.0.0", "first")
    team.bundle(name, attest=attest("staging"))
    told = receiver.wait_told("Attested", name)
    assert told["what"] == "is attested"
    assert told["why"].endswith("is attested as staging")
    team.annotate(name, hold="the load test failed")
    told = receiver.wait_told("NotAttested", name)
    assert told["what"] == "isn't attested any more"
    assert "the load test failed" in told["why"]
    assert told["command"] == f"copyrator why {team.namespace}/{name} --kind bundle"
    types(operator, told["command"].removeprefix("copyrator "))
    team.annotate(name, hold=None)
    receiver.wait_told("NotAttested", name, resolved=True)


def test_a_kubeconfig_whose_credential_ends_is_told_until_it_is_renewed(
    operator: Operator, receiver: Receiver, team: Team
) -> None:
    name, now = f"far-{team.namespace}", datetime.now(UTC)
    team.publish("1.0.0", "first")
    team.create("secrets", "far", data=kubeconfig_data(token=token_until(now + timedelta(days=3))))
    team.bundle(name, kubeConfig={"secretName": "far"})
    told = receiver.wait_told("CertificateExpiring", name)
    assert told["what"] == "uses a kubeconfig whose credential ends soon"
    assert "write a kubeconfig with a new one into the Secret" in told["why"]
    team.patch("secrets", "far", data=kubeconfig_data(token=token_until(now + timedelta(days=99))))
    receiver.wait_told("CertificateExpiring", name, resolved=True)
    team.patch("bundles", name, spec={"deletionPolicy": "Orphan"})
    team.delete("bundles", name)


def test_the_deletion_of_a_bundle_ends_its_faults(
    operator: Operator, receiver: Receiver, team: Team
) -> None:
    name = f"none-{team.namespace}"
    team.bundle(name, repo="no/such")
    told = receiver.wait_told("SourceUnreachable", name)
    assert told["what"] == "can't read its registry"
    team.delete("bundles", name)
    assert receiver.wait_told("SourceUnreachable", name, resolved=True)["what"] == "it was deleted"


def test_the_deletion_of_what_has_faults_is_told_though_no_operator_ran(
    operator: Operator, receiver: Receiver, team: Team
) -> None:
    bundle, rule = f"none-{team.namespace}", f"none-{team.namespace}-rule"
    stays, user, home = f"stays-{team.namespace}", User(team.api), operator.namespace
    for name in (bundle, stays):
        team.bundle(name, repo="no/such")
    spec = {"source": {"kind": "Secret", "name": "no-such"}, "targets": {"namespaces": ["prod"]}}
    user.rule(home, rule, spec)
    for name in (bundle, stays, rule):
        receiver.wait_told("SourceUnreachable", name)

    def marked() -> bool:
        subjects = [mark[3] for mark in Settings(operator).marks()["ci"]["slots"].values()]
        return {bundle, stays, rule} <= {one[2] for one in subjects if one}

    until(marked, "their marks are written")
    operator.stop(signal.SIGKILL)
    for path in (
        f"/apis/operator.werf.dev/v1/namespaces/{team.namespace}/bundles/{bundle}",
        f"/apis/flant.com/v1/namespaces/{home}/copyrators/{rule}",
    ):
        team.api.patch(path, {"metadata": {"finalizers": None}})
        team.api.delete(path)
    operator.start()
    for name in (bundle, rule):
        told = receiver.wait_told("SourceUnreachable", name, resolved=True)
        assert told["what"] == "it was deleted"
    until(lambda: not marked(), "that is marked")
    operator.stop(signal.SIGKILL)
    operator.start()
    team.bundle(f"later-{team.namespace}", repo="no/such")
    receiver.wait_told("SourceUnreachable", f"later-{team.namespace}")
    for name in (bundle, rule):
        assert len(receiver.told("SourceUnreachable", name, resolved=True)) == 1
    assert receiver.told("SourceUnreachable", stays, resolved=True) == []


def test_receivers_that_fail_are_said_each_by_its_fault_and_hold_up_no_other(
    operator: Operator, receiver: Receiver, cloud: Stage, team: Team
) -> None:
    settings, before = Settings(operator), Settings(operator).read()
    answers = {
        "hangs": Answer(204, delay=600.0),
        "broken": Answer(500, "token-abc"),
        "leads": Answer(302, headers={"Location": "http://169.254.169.254/latest/meta-data"}),
        "busy": Answer(429, headers={"Retry-After": "1"}),
    }
    for name, answer in answers.items():
        cloud.serve(f"{name}.example.com", lambda _, answer=answer: answer)
    urls = {name: f"https://{name}.example.com/token-abc" for name in answers}
    settings.urls("bad", odd="dbus://token-abc", **urls)
    entries = yaml.safe_load(before)["entries"]
    for name in ("odd", *answers):
        url = {"secretName": "bad", "key": name}
        entries.append({"name": name, "urlFrom": url, "about": ["SourceUnreachable"]})
    said = {
        "odd": "the URL has no scheme that is allowed (dbus isn't)",
        "hangs": "it failed with TimeoutError",
        "broken": "the server answered 500",
        "leads": "the server answered 302, a redirect, which isn't followed: use the final URL",
        "busy": "the server answered 429",
    }
    settings.write(yaml.safe_dump({"entries": entries}))
    until(lambda: settings.marks().keys() >= said.keys(), "they have begun")

    team.bundle("first", repo="no/such")
    receiver.wait_told("SourceUnreachable", "first")
    for name, text in said.items():
        until(
            lambda name=name, text=text: settings.result(name).startswith(text),
            lambda name=name: f"{name}: {settings.result(name)}",
        )
        assert settings.count(name, "failed") >= 1
        assert f"entry {name}: a message failed" in settings.events()
    assert "169.254.169.254" not in cloud.lookups
    shown = types(operator, "doctor", code=1)
    assert "the last message failed at" in shown or "and 3 more" in shown
    team.bundle("second", repo="no/such")
    receiver.wait_told("SourceUnreachable", "second")

    settings.write("[")
    until(lambda: "isn't valid YAML in line 1; correct it" in settings.events(), "it is said")
    assert "isn't valid YAML in line 1" in types(operator, "doctor", code=1)
    team.bundle("third", repo="no/such")
    until(lambda: team.condition("third").get("status") == "False", "it happens")
    settings.write(before)
    receiver.wait_told("SourceUnreachable", "third")
    assert len(receiver.told("SourceUnreachable", "first")) == 1, "nothing is repeated"


@pytest.fixture
def settings(operator: Operator) -> Iterator[Settings]:
    """They are as before afterwards."""
    found = Settings(operator)
    before = found.read()
    yield found
    found.write(before)
    until(lambda: found.marks().keys() >= {"ci", "chat"}, "the others have begun again")


@pytest.mark.timeout(1800)
def test_very_many_transitions_are_few_messages_and_each_is_told_once(
    operator: Operator, cloud: Stage, team: Team, settings: Settings
) -> None:
    """Rules whose source isn't there, as fast as the API server takes them."""
    events: list[dict[str, Any]] = []

    def take(asked: Asked) -> Answer:
        events.append(json.loads(asked.body))
        return Answer(204)

    cloud.serve("rules.example.com", take)
    settings.urls("bad", rules="https://rules.example.com/")
    url = {"secretName": "bad", "key": "rules"}
    # The only entry, so that no message to another one has these among its own; without Bundles,
    # and without what earlier files have left in other namespaces.
    entry = {"name": "rules", "urlFrom": url, "kinds": ["CopyratorRule"]}
    entry["namespaces"] = [operator.namespace]
    settings.write(yaml.safe_dump({"entries": [entry]}))
    until(lambda: settings.marks().keys() == {"rules"}, "it has begun")

    number = 2_000 if LONG else 200
    path = f"/apis/flant.com/v1/namespaces/{operator.namespace}/copyrators"
    spec = {
        "source": {"kind": "Secret", "name": "no-such"},
        "targets": {"namespaces": [team.namespace]},
    }
    body = {"apiVersion": "flant.com/v1", "kind": "CopyratorRule", "spec": spec}

    def create(i: int) -> None:
        metadata = {"name": f"many-{i}", "labels": {"many": team.namespace}}
        team.api.create(path, {**body, "metadata": metadata})

    def sent() -> list[dict[str, Any]]:
        return [one["data"] for one in events if "many-" in one["data"]["text"]]

    def told() -> int:
        return sum(one["count"] for one in sent())

    def twice() -> list[dict[str, Any]]:
        listed = [one for event in sent() for one in event["transitions"]]
        times = Counter(one["name"] for one in listed)
        return [one for one in listed if times[one["name"]] > 1 or "many-" not in one["name"]]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(create, range(number)))
    until(lambda: told() >= number, lambda: f"{told()} of {number} are told", 1200)
    if not settings.count("rules", "failed"):  # a message whose answer is late is sent again
        assert told() == number, f"more than once, or another's: {twice()}"
    assert len(sent()) < 10 + number / 50
    assert sum(len(one["slots"]) for one in settings.marks().values()) <= NOTIFICATION_MARKS
    some = {"labelSelector": f"many={team.namespace}"}
    team.api.request("DELETE", path, parameters=some)
    until(lambda: not team.api.get(path, **some)["items"], "they are gone", 600)


def test_a_rotated_secret_is_used_at_once(
    operator: Operator, receiver: Receiver, cloud: Stage, team: Team
) -> None:
    got: list[dict[str, Any]] = []
    rotated = partial(receiver._service, got, "/hooks/token-new")
    cloud.serve("chat.example.com", rotated)
    Settings(operator).urls("receivers", chat="mmosts://chat.example.com/token-new")
    team.bundle("shop", repo="no/such")
    until(lambda: any(team.namespace in one["text"] for one in got), "it is told there")
    Settings(operator).urls("receivers", chat=URLS["chat"])
    receiver.serve(cloud)


def test_the_commands_test_an_entry_and_say_what_is_wrong_with_another(
    operator: Operator, receiver: Receiver
) -> None:
    assert types(operator, "notify test chat") == "A test message was sent to chat.\n"
    assert any("This is a test of the entry chat" in text for text in receiver.texts("chat"))
    assert "can't be read: NotFound" in types(operator, "notify test gone", code=1)
    said = types(operator, "notify test other", code=1)
    assert "has no valid entry other; valid ones: ci, chat, slack, mail, gone" in said
    said = types(operator, "doctor", code=1)
    assert f"FAIL Notifications: gone: Secret {operator.namespace}/no-such doesn't exist" in said


def test_the_values_of_the_docs_have_failed_deploys_in_prod_told(operator: Operator) -> None:
    page = (ROOT / "docs" / "notifications.md").read_text()
    shown = page.partition("<!-- values: begin -->")[2].partition("<!-- values: end -->")[0]
    values = yaml.safe_load(shown.replace("```yaml", "").replace("```", ""))
    chart = render(operator.cluster.helm, namespace=operator.namespace, values=values)
    made = {(one["kind"], one["metadata"]["name"]): one for one in chart.rights}
    config = read_config(made["ConfigMap", "copyrator-notifications"]["data"])
    assert config.faults == ()
    (entry,) = config.entries
    told = {
        (about, namespace)
        for about in About
        for namespace in ("prod", "prod-eu", "product", "dev")
        if entry.wants(about, SubjectKind.BUNDLE, namespace)
    }
    abouts = (About.DEPLOY_FAILED, About.ROLLED_BACK, About.QUARANTINED)
    assert told == {(about, place) for about in abouts for place in ("prod", "prod-eu")}
    rights = made["Role", "copyrator-notifications"]["rules"]
    secrets = next(one for one in rights if one["resources"] == ["secrets"])
    assert secrets["resourceNames"] == [entry.url_from.secret_name]
    assert chart.container["image"].endswith("-keyless")
