"""Sentences that users rely on. Each test begins with what a user has and ends at what they see.

Every one of these was broken once while all other tests passed. They may be moved, never deleted
or weakened. What they start is the operator of tests/component/bundles or tests/component/copies.
"""

from __future__ import annotations

import pytest
from tests.component.bundles.conftest import bundle, cluster, registry, run, timing, werf

__all__ = ["bundle", "cluster", "registry", "run", "timing", "werf"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is here."""
    for item in items:
        if item.path.is_relative_to(__file__.removesuffix("conftest.py")):
            item.add_marker(pytest.mark.promise)
