"""Alerts and dashboard, evaluated by Prometheus' own engine over what a real operator served."""

import json
import re
from pathlib import Path

import pytest
import yaml
from tests.monitoring.pages import (
    BAD,
    GOOD,
    SCRAPED,
    STEP,
    Answer,
    Series,
    evaluate,
    parse,
    recorded,
)

FILES = Path(__file__).resolve().parents[2] / "charts" / "copyrator" / "files"
POLL_LATE = "30"
"""Seconds: three of the intervals of the recorded operator."""

Story = list[Series]


def rules() -> dict[str, dict[str, str]]:
    text = (FILES / "alerts.yaml").read_text().replace("POLL_LATE_SECONDS", POLL_LATE)
    text = text.replace("CERTIFICATE_WARNING_SECONDS", "1209600")
    (group,) = yaml.safe_load(text)["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def panels() -> dict[str, str]:
    board = json.loads((FILES / "dashboard.json").read_text())
    return {
        f"{panel['title']} {target['refId']}": target["expr"]
        .replace("$namespace", "ops")
        .replace("$__rate_interval", "5m")
        for panel in board["panels"]
        for target in panel["targets"]
    }


RULES, PANELS = rules(), panels()


@pytest.fixture(scope="module")
def good() -> Story:
    return [{**parse(recorded(name)), **certificate(LATER), **others(up=1.0)} for name in GOOD]


@pytest.fixture(scope="module")
def bad(good: Story) -> Story:
    """All goes wrong; late copies, a held loop, certificate, stopped rollout and fight are added.

    So are a deploy that wasn't as approved, and the hours that a plan has waited, and a version, of
    which only seconds are recorded.
    """
    page = parse(recorded(BAD))
    waited = {
        key: WAITED[dict(key)["__name__"]]
        for key, value in page.items()
        if value and dict(key)["__name__"] in WAITED
    }
    assert len(waited) == len(WAITED), "a plan and a version waited when it was recorded"
    added = {**late_and_held(good[-1]), **waited, **certificate(SOON), **stopped_rollout()}
    for name in ("copyrator_copies_contested", "copyrator_bundles_unattested"):
        added[tuple(sorted({"__name__": name, **SCRAPED}.items()))] = 1.0
    labels = {"__name__": "copyrator_bundles_as_approved", "as_approved": "False", **SCRAPED}
    added[tuple(sorted(labels.items()))] = 1.0
    added |= failing_notifications() | others(up=0.0)
    return [good[-1], {**page, **added}]


def late_and_held(page: Series) -> Series:
    """Three copies that were late by minutes, three callbacks that held the loop for seconds."""
    found = {}
    for key, value in page.items():
        labels = dict(key)
        name, most = labels["__name__"], float(labels.get("le", "inf"))
        lag, stall = name.startswith(LAG), name.startswith(STALLS)
        if not name.endswith("_sum") and ((lag and most > 60) or (stall and most > 1)):
            found[key] = value + 3
    return found


def certificate(ends: float) -> Series:
    """The end of a certificate; the story begins at Unix time 0."""
    name = "copyrator_certificate_expiry_timestamp_seconds"
    labels = {"__name__": name, "rule": "ops/ca", **SCRAPED}
    return {tuple(sorted(labels.items())): ends}


def others(*, up: float) -> Series:
    """Another cluster that a rule reads, and a statement pushed for others."""
    remote = {"__name__": "copyrator_remote_up", "kubeconfig": "hub", **SCRAPED}
    pushed = {"__name__": "copyrator_attestations_total", "result": "Attested", **SCRAPED}
    return {tuple(sorted(remote.items())): up, tuple(sorted(pushed.items())): 1.0}


def stopped_rollout() -> Series:
    """A rule whose rollout is stopped."""
    labels = {"__name__": "copyrator_rules", "reason": "RolloutStopped", **SCRAPED}
    return {tuple(sorted(labels.items())): 1.0}


def failing_notifications() -> Series:
    """A receiver that can't be reached, and an entry with a fault."""
    failing = {"__name__": "copyrator_notifications_failing", "entry": "chat", **SCRAPED}
    faults = {"__name__": "copyrator_notification_faults", **SCRAPED}
    return {tuple(sorted(labels.items())): 1.0 for labels in (failing, faults)}


SOON, LATER = 20 * 60.0, 1_300_000.0
WAITED = {
    "copyrator_oldest_plan_seconds": 9 * 3600,
    "copyrator_oldest_wait_seconds": 8 * 24 * 3600,
}
LAG, STALLS = "copyrator_copy_lag_seconds", "copyrator_event_loop_stall_seconds"


def firing(story: Story) -> set[str]:
    """The alerts whose condition holds for as long as they ask for."""
    answers = evaluate(story, {name: rule["expr"] for name, rule in RULES.items()})
    assert {name: one.error for name, one in answers.items() if one.error} == {}
    return {name for name, answer in answers.items() if answer.longest() * STEP > seconds_of(name)}


def seconds_of(alert: str) -> int:
    minutes = re.fullmatch(r"(\d+)m", RULES[alert]["for"])
    assert minutes
    return int(minutes[1]) * 60


def test_no_alert_fires_while_all_is_well(good: Story) -> None:
    assert firing(good) == set()


def test_each_alert_fires_when_all_is_bad(bad: Story) -> None:
    assert firing(bad) == set(RULES)


def test_each_alert_is_silent_again_when_all_is_well_again(good: Story, bad: Story) -> None:
    """What a counter counted isn't told for ever."""
    page = {**good[-1], **late_and_held(good[-1])}
    assert firing([page, page]) == set()


@pytest.fixture(scope="module")
def shown(good: Story) -> dict[str, Answer]:
    return evaluate([*good, parse(recorded(BAD))], PANELS)


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_shows_something(shown: dict[str, Answer], panel: str) -> None:
    assert shown[panel].error == ""
    assert shown[panel].longest() > 0
