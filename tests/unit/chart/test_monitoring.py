"""Alerts and dashboard ask for metrics, labels and reasons that the operator has."""

import json
import re
from pathlib import Path

import pytest
import yaml

from copyrator.api.reasons import FAILURE, WARNING, Reason
from copyrator.api.reasons.bundles import LOGIN, BundleReason
from copyrator.api.reasons.rules import RuleReason
from copyrator.bundles.features import load
from copyrator.bundles.features.drift.reasons import DriftReason
from copyrator.metrics import Metrics

FILES = Path(__file__).resolve().parents[3] / "charts" / "copyrator" / "files"
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
FROM_PROMETHEUS = {"namespace", "pod", "le"}


def known() -> dict[str, set[str]]:
    """Every series of a real registry, with its labels."""
    found = {}
    metrics = Metrics()
    for one in load("metrics"):
        metrics.of(one.METRICS)
    for collector in metrics.registry._collector_to_names:
        for family in collector.describe():
            for suffix in SUFFIXES[family.type]:
                found[family.name + suffix] = set(collector._labelnames)
    return found


def alerts() -> dict[str, str]:
    (group,) = yaml.safe_load((FILES / "alerts.yaml").read_text())["groups"]
    return {rule["alert"]: rule["expr"] for rule in group["rules"]}


def panels() -> dict[str, str]:
    board = json.loads((FILES / "dashboard.json").read_text())
    return {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in board["panels"]
        for target in panel["targets"]
    }


EXPRESSIONS = alerts() | panels()


@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS.keys())
def test_an_expression_names_what_there_is(expression):
    series = known()
    named = re.findall(r"(copyrator_\w+)(?:\{([^}]*)\})?", expression)
    assert named
    for name, selector in named:
        assert name in series
        selected = set(re.findall(r"(\w+)\s*[=!]~?", selector))
        assert selected <= series[name] | FROM_PROMETHEUS
    grouped = {
        label.strip()
        for labels in re.findall(r"by \(([^)]*)\)", expression)
        for label in labels.split(",")
    }
    of_all = set().union(*(series[name] for name, _ in named))
    assert grouped <= of_all | FROM_PROMETHEUS


def test_the_alerts_are_the_ones_that_are_documented():
    text = (FILES.parents[2] / "docs" / "alerts.md").read_text()
    assert re.findall(r"^## (Copyrator\w+)$", text, re.MULTILINE) == list(alerts())


REASONS = {
    "copyrator_rules": RuleReason,
    "copyrator_bundles": BundleReason,
    "copyrator_bundles_drifted": DriftReason,
    "copyrator_freezes": BundleReason,
    "copyrator_updates_pending": BundleReason,
}


def reasons(expression: str) -> set[Reason]:
    """The rows of the table that it names, of the kind that its metric has."""
    found = re.findall(r'(\w+)\{reason=~?"([^"]+)"\}', expression)
    assert len(found) == expression.count("reason=")
    return {REASONS[metric](word) for metric, words in found for word in words.split("|")}


def test_the_alerts_name_reasons_of_faults() -> None:
    named = set().union(*map(reasons, alerts().values()))
    # Its row is a wait: a deploy is planned again. It is a fault where it lasts.
    waits = {BundleReason.PLAN_CHANGED}
    assert {one for one in named if one.severity not in (WARNING, FAILURE)} == waits


def test_an_alert_names_each_failing_login() -> None:
    logins = {one for one in BundleReason if one.feature == LOGIN}
    assert logins < reasons(alerts()["CopyratorRegistryUnreachable"])


def test_every_panel_has_its_own_place_and_number():
    board = json.loads((FILES / "dashboard.json").read_text())
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
    assert len(set(places)) == len(places)
    numbers = [panel["id"] for panel in board["panels"]]
    assert len(set(numbers)) == len(numbers)
