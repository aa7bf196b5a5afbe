"""The table of settings: each value of the chart reaches its setting, by the real helm."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest
from tests.component.promises.installed import NAMESPACE, settings

from copyrator.settings.config import NO_SIDECAR_LABELS
from copyrator.settings.options import Items, Pairs, Text, row_of
from generate.settings import OF_CHART, VALUES, Setting, default_of, values


def example(field: Setting) -> tuple[Any, Any]:
    """A value of the chart that isn't its default, and what the setting is then."""
    takes = row_of(field).takes
    match takes:
        case None:
            value = not default_of(field)
            return value, value
        case Pairs():
            key, ones = matching(takes.key), [matching(takes.value, n) for n in range(2)]
            if takes.several:
                return {key: ones}, tuple((key, one) for one in ones)
            wanted = {**default_of(field), key: ones[0]}  # helm adds it to the default
            return {key: ones[0]}, tuple(wanted.items())
        case Items():
            texts = [matching(takes.pattern), matching(takes.pattern, 1)]
            return texts, takes.convert(",".join(texts), None, None)
        case Text():
            return matching(takes.pattern), matching(takes.pattern)
        case click.Choice():
            other = next(one for one in takes.choices if one != default_of(field))
            return other.value, other
        case click.Path():
            return "/ca.pem", Path("/ca.pem")
        case click.FloatRange():
            return 2592000.5, 2592000.5
        case click.IntRange():
            return takes.min + 1, takes.min + 1
    raise AssertionError(f"{field.name}: no example")


def matching(pattern: str, which: int = 0) -> str:
    """A text of this pattern."""
    texts = (
        "Secret",  # before words that look like a kind: the chart knows the core group's
        "Role.rbac.authorization.k8s.io",
        "OnRisk",
        "Always",
        "10.0.0.0/8",
        "::1",
        "a",
        "b",
    )
    return [one for one in texts if re.fullmatch(pattern, one)][which]


def test_every_value_of_the_chart_that_is_a_settings_reaches_it() -> None:
    examples = {path: example(field) for path, field in OF_CHART.items()}
    values = {path: value for path, (value, _) in examples.items()}
    found = settings({**values, "image.variant": "clouds"})  # which some of them require
    for path, (_, wanted) in examples.items():
        assert in_any_order(found[OF_CHART[path].name]) == in_any_order(wanted), path


def test_the_charts_defaults_are_the_settings_or_its_own() -> None:
    found = settings({})
    assert found["namespace"] == NAMESPACE
    for path, field in OF_CHART.items():
        chart = row_of(field).chart
        wanted = (chart and chart.default) or field.default
        if path != "rules.namespace":
            assert in_any_order(found[field.name]) == in_any_order(wanted), path


def in_any_order(value: Any) -> Any:
    return frozenset(value) if isinstance(value, tuple) else value


ISTIO = {"sidecar.istio.io/inject": None}


@pytest.mark.parametrize(
    ("path", "value", "wanted"),
    [
        ("bundles.allowedSecrets", [], ()),
        ("bundles.podLabels", ISTIO, ()),
        ("bundles.podLabels", ISTIO | {"team": "a"}, (("team", "a"),)),
        ("bundles.podLabels", None, NO_SIDECAR_LABELS),
    ],
)
def test_defaults_can_be_removed(path: str, value: Any, wanted: Any) -> None:
    assert settings({path: value})[OF_CHART[path].name] == wanted


def test_comments_and_defaults_are_written_where_the_values_stand() -> None:
    text = VALUES.read_text()
    changed = text.replace("  maxRemotes: 20\n", "  maxRemotes: 3\n").replace("    - Secret\n", "")
    changed = changed.replace("  # the lowest level that is logged", "  # another text", 1)
    assert len(changed.splitlines()) == len(text.splitlines()) - 1
    assert values(changed) == text
    with pytest.raises(ValueError, match=r"values\.yaml lacks rules\.maxRemotes: add"):
        values(text.replace("  maxRemotes: 20\n", ""))
