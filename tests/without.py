"""A plugin of pytest: the operator without some features, and no test of what needs them.

    COPYRATOR_WITHOUT=health,age python -m pytest -p tests.without tests/component/bundles

The features aren't in the list, nor are those that need them by .importlinter; that nothing else
imports them is a contract there. Left out are the tests in their folders, and those that say
`@pytest.mark.needs("health")`.
"""

from __future__ import annotations

import configparser
import os
import re
from pathlib import Path

import pytest

from copyrator.bundles import features

WITHOUT = "COPYRATOR_WITHOUT"

CONTRACTS = Path(__file__).resolve().parents[1] / ".importlinter"


def with_dependents(names: set[str]) -> frozenset[str]:
    """The features, and those that import them."""
    contracts = configparser.ConfigParser()
    contracts.read(CONTRACTS)
    allowed = contracts["importlinter:contract:features"]["ignore_imports"]
    arrows = re.findall(r"features\.(\w+)\S* -> \S*features\.(\w+)", allowed)
    while more := {one for one, needed in arrows if needed in names} - names:
        names = names | more
    return frozenset(names)


TAKEN_OUT = with_dependents(set(filter(None, os.environ.get(WITHOUT, "").split(","))))
assert set(features.FEATURES) >= TAKEN_OUT, f"{WITHOUT}: only {features.FEATURES}"
features.FEATURES = tuple(  # type: ignore[misc]
    name for name in features.FEATURES if name not in TAKEN_OUT
)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Also what tests the whole list."""
    path = collection_path
    is_theirs = path.parent.name == "features" and (path.name in TAKEN_OUT or path.is_file())
    return True if is_theirs else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    theirs = [
        item
        for item in items
        if TAKEN_OUT & {name for mark in item.iter_markers("needs") for name in mark.args}
    ]
    if theirs:
        config.hook.pytest_deselected(items=theirs)
        items[:] = [item for item in items if item not in theirs]
