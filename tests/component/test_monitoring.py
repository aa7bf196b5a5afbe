"""Alerts and dashboard, evaluated by Prometheus' own engine."""

import json
import re
from pathlib import Path

import pytest
import yaml
from tests.monitoring.pages import GOOD, STEP, Answer, Series, evaluate, parse, played, recorded

FILES = Path(__file__).resolve().parents[2] / "charts" / "copyrator" / "files"
LAG = "copyrator_copy_lag_seconds_bucket{%s}"
FIRES: list[tuple[str, dict[str, str]]] = [
    ("CopyratorNotLeading", {"copyrator_leader": "0x60"}),
    (
        "CopyratorWatchStale",
        {
            'copyrator_watches{resource="secrets"}': "1x60",
            'copyrator_watches_synced{resource="secrets"}': "0x60",
        },
    ),
    ("CopyratorCopiesFailing", {'copyrator_copies{state="failed"}': "3x60"}),
    ("CopyratorConflictPersists", {"copyrator_copies_contested": "1x60"}),
    ("CopyratorLag", {"copyrator_queue_oldest_seconds": "90x60"}),
    (
        "CopyratorLag",
        {LAG % 'le="60"': "0x60", LAG % 'le="600"': "0+1x60", LAG % 'le="+Inf"': "0+1x60"},
    ),
    (
        "CopyratorCertificateExpiring",
        {'copyrator_certificate_expiry_timestamp_seconds{rule="ops/ca"}': "1209000x60"},
    ),
    ("CopyratorRemoteDown", {'copyrator_remote_up{kubeconfig="hub"}': "1x20 0x40"}),
    ("CopyratorRolloutStopped", {'copyrator_rules{reason="RolloutStopped"}': "1x60"}),
    ("CopyratorDeployFailed", {'copyrator_bundles{reason="DeployFailed"}': "1x60"}),
    ("CopyratorBundleQuarantined", {"copyrator_bundles_quarantined": "1x60"}),
    (
        "CopyratorDeployedDifferently",
        {'copyrator_bundles_as_approved{as_approved="False"}': "1x60"},
    ),
    ("CopyratorBundleUntrusted", {"copyrator_bundles_untrusted": "2x60"}),
    ("CopyratorBundleDrifted", {'copyrator_bundles_drifted{reason="Drifted"}': "2x60"}),
    ("CopyratorDriftRecurring", {'copyrator_bundles_drifted{reason="DriftRecurring"}': "1x60"}),
    ("CopyratorBundleUnhealthy", {'copyrator_bundles_health{healthy="False"}': "1x60"}),
    ("CopyratorUpdateWaitsLong", {"copyrator_oldest_wait_seconds": "604801x60"}),
    ("CopyratorPlanFailing", {'copyrator_updates_pending{reason="PlanUnstable"}': "1x60"}),
    ("CopyratorPlanAwaitsApproval", {"copyrator_oldest_plan_seconds": "28801x60"}),
    (
        "CopyratorFreezeUnreadable",
        {'copyrator_freezes{scope="all", reason="FreezeUnreadable"}': "1x60"},
    ),
    ("CopyratorNotAttested", {"copyrator_bundles_unattested": "1x60"}),
    (
        "CopyratorRegistryUnreachable",
        {
            'copyrator_bundles{reason="Deployed"}': "1x60",
            "copyrator_bundles_poll_failed": "0x20 1x40",
        },
    ),
    ("CopyratorPollLate", {"copyrator_oldest_poll_seconds": "1900x60"}),
    ("CopyratorNotificationsFailing", {'copyrator_notifications_failing{entry="chat"}': "1x60"}),
    ("CopyratorNotificationsInvalid", {"copyrator_notification_faults": "1x60"}),
    ("CopyratorEventLoopHeld", {"copyrator_event_loop_stall_seconds_count": "9x40 10x20"}),
]
"""What makes one alert fire, and no other: a value a minute."""
WELL: dict[str, str] = {
    **{series: "0x60" for _, bad in FIRES for series in bad},
    "copyrator_leader": "1x60",
    'copyrator_watches{resource="secrets"}': "1x60",
    'copyrator_watches_synced{resource="secrets"}': "1x60",
    'copyrator_copies{state="ready"}': "9x60",
    'copyrator_certificate_expiry_timestamp_seconds{rule="ops/ca"}': "1300000x60",
    'copyrator_remote_up{kubeconfig="hub"}': "1x41 0x9 1x10",
    "copyrator_queue_oldest_seconds": "2x60",
    'copyrator_rules{reason="RollingOut"}': "1x60",
    'copyrator_bundles{reason="Deployed"}': "4x60",
    'copyrator_updates_pending{reason="AwaitingApproval"}': "1x60",
    "copyrator_bundles_poll_failed": "0x41 1x9 0x10",
    'copyrator_bundles_health{healthy="Unknown"}': "1x60",
    'copyrator_bundles_as_approved{as_approved="Unknown"}': "1x60",
    "copyrator_bundles_unattested": "0x41 1x9 0x10",
    "copyrator_oldest_poll_seconds": "700x60",
    "copyrator_oldest_plan_seconds": "28799x60",
    "copyrator_oldest_wait_seconds": "604799x60",
    "copyrator_event_loop_stall_seconds_count": "9x60",
    'copyrator_event_loop_stall_seconds_bucket{le="0.25"}': "9x60",
}

SELDOM = dict.fromkeys(
    (
        'copyrator_copy_failures_total{reason="Forbidden"}',
        *(f'copyrator_deploy_seconds_bucket{{action="deploy", le="{le}"}}' for le in (60, "+Inf")),
        'copyrator_watch_restarts_total{reason="expired"}',
        'copyrator_signature_checks_total{result="Trusted"}',
        'copyrator_drift_corrections_total{result="succeeded"}',
        'copyrator_bundles_waiting{gate="age"}',
        'copyrator_freezes{scope="all"}',
        'copyrator_attestations_total{result="Attested"}',
    ),
    "0+1x60",
)
"""What an operator serves that isn't in the recorded pages."""


def written(texts: dict[str, str]) -> Series:
    """Series as promtool's tests write them: `1x60` is sixty times 1, `0+1x60` grows by 1."""
    found: Series = {}
    for series, text in texts.items():
        ((key, _),) = parse(f"{series} 0\n").items()
        parts = re.findall(r"(\d+)(?:\+(\d+))?x(\d+)", text)
        found[key] = [
            float(first) + float(more or 0) * n
            for first, more, times in parts
            for n in range(int(times))
        ]
    return found


def rules() -> dict[str, dict[str, str]]:
    text = (FILES / "alerts.yaml").read_text().replace("POLL_LATE_SECONDS", "1800")
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


def firing(story: Series) -> set[str]:
    """The alerts whose condition holds for as long as they ask for."""
    answers = evaluate(story, {name: rule["expr"] for name, rule in RULES.items()})
    assert {name: one.error for name, one in answers.items() if one.error} == {}
    wanted = {name: 60 * int(rule["for"].removesuffix("m")) for name, rule in RULES.items()}
    return {name for name, one in answers.items() if one.longest() * STEP > wanted[name]}


@pytest.mark.parametrize("page", GOOD)
def test_no_alert_fires_where_a_real_operator_serves_while_all_is_well(page: str) -> None:
    assert firing(played([parse(recorded(page))])) == set()


def test_no_alert_fires_while_all_is_well_for_an_hour_or_wrong_for_a_while() -> None:
    assert firing(written(WELL)) == set()


@pytest.mark.parametrize(("alert", "bad"), FIRES, ids=[alert for alert, _ in FIRES])
def test_an_alert_fires_alone(alert: str, bad: dict[str, str]) -> None:
    assert firing(written(WELL | bad)) == {alert}


def test_each_alert_fires_and_one_also_when_nobody_is_scraped_at_all() -> None:
    assert {alert for alert, _ in FIRES} == set(RULES)
    without = {series: values for series, values in WELL.items() if "leader" not in series}
    assert firing(written(without)) == {"CopyratorNotLeading"}


@pytest.fixture(scope="module")
def shown() -> dict[str, Answer]:
    pages = played([parse(recorded(name)) for name in GOOD])
    return evaluate(written(WELL | SELDOM) | pages, PANELS)


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_shows_something(shown: dict[str, Answer], panel: str) -> None:
    assert shown[panel].error == ""
    assert shown[panel].longest() > 0
