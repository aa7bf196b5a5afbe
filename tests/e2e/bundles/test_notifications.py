"""People are told what happens, by a real operator under the chart's rights."""

from __future__ import annotations

import re
import signal
from functools import partial
from typing import Any

import pytest
import yaml
from tests.e2e.bundles.conftest import BROKEN, TEMPLATE, Operator, Team
from tests.e2e.bundles.receivers import (
    COLOURS,
    SERVICES,
    Receiver,
    cloud,
    documented,
    operator,
    receiver,
    types,
)
from tests.e2e.operator_process import until

from copyrator.api.reasons.notices import About
from copyrator.notify.config import SubjectKind, read_config
from demo.chart import ROOT, render

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
    waits = receiver.wait_told("AwaitingApproval", "shop")
    plan = team.status("shop")["plan"]["id"]
    assert waits["command"] == f"copyrator approve bundle -n {team.namespace} shop {plan}"
    assert waits["link"] == f"https://copyrator.example.com/Bundle/{team.namespace}/shop"
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
    receiver.wait_told("DeployFailed", "web", resolved=True)
    receiver.wait_told("Deployed", "web")
    wait(4)
    assert len(receiver.told("AwaitingApproval", "shop")) == 1
    assert len(receiver.told("DeployFailed", "web")) == 1
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
