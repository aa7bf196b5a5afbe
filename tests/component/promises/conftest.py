"""Sentences that users rely on. Each test begins with what a user has and ends at what they see.

Every one of these was broken once while all other tests passed. They may be moved, never deleted
or weakened. What they start is the operator of tests/component/bundles or tests/component/copies.
Those of a feature are in its folder, in one of the same name.
"""

from __future__ import annotations

from tests.component.bundles.conftest import bundle, cluster, registry, run, timing, werf

__all__ = ["bundle", "cluster", "registry", "run", "timing", "werf"]
