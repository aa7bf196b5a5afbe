"""The list of features, whose order is that of their gates, and the points that they may have."""

from __future__ import annotations

import re
from pathlib import Path
from types import FunctionType

import pytest

from copyrator.bundles.engine.feature import Feature
from copyrator.bundles.engine.gate import load_gates
from copyrator.bundles.features import FEATURES
from copyrator.bundles.fields import bundle_conditions
from copyrator.bundles.words import Words, load_words

ROOT = Path(__file__).resolve().parents[4]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
TOY = ROOT / "tests" / "toy_feature" / "greeting"
NOT_OF_STEPS = {
    "connect",
    "start",
    "stop",
    "checks",
    "publish",
    "retry",
    "is_judged",
    "awaits_moment",
}

ORDER = [
    *("skip-digests", "signature", "vendored", "plain", "age", "promotion"),
    *("dependsOn", "freeze", "window", "approval"),
]


def test_versions_are_judged_before_the_moment() -> None:
    gates = load_gates()
    assert [gate.name for gate in gates] == ORDER
    assert [gate.name for gate in gates.version] == ORDER[:6]


def test_conditions_are_written_in_the_order_in_which_they_are_stored() -> None:
    """In another one each status would be written anew after an update of the operator."""
    assert list(bundle_conditions()) == [
        *("Ready", "Reconciling", "Stalled", "UpdatePending", "Verified", "Drifted", "Healthy"),
        *("Attested", "AsApproved", "SettingsWithheld", "CertificateExpiring"),
    ]


def test_the_architecture_names_each_feature() -> None:
    assert [name for name in FEATURES if f"`{name}`" not in PAGE] == []


def test_its_picture_has_each_point_of_a_reconcile() -> None:
    points = [name for name, what in vars(Feature).items() if is_point(name, what)]
    picture = PAGE.partition("points at which features enter:\n")[2].partition("A step")[0]
    assert len(points) > 20
    assert {name for name in points if not re.search(rf" {name}\b", picture)} == NOT_OF_STEPS


def test_each_thing_that_words_may_say_is_said_by_a_feature() -> None:
    names = [name for name in vars(Words) if not name.startswith("_")]
    kinds = [type(one) for one in load_words()]
    assert len(names) > 20
    assert [name for name in names if not any(name in vars(kind) for kind in kinds)] == []


def is_point(name: str, what: object) -> bool:
    return not name.startswith("_") and isinstance(what, FunctionType | property)


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
def test_its_code_is_the_toys(code: str) -> None:
    names = ("fields", "gates", "settings", "metrics", "feature")
    files = (TOY / f"{name}.py" for name in names)
    rest = iter([line.strip() for file in files for line in file.read_text().splitlines()])
    assert all(line.strip() in rest for line in filter(None, code.splitlines())), code
