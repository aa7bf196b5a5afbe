"""The types of the fixtures `run` and `bundle`, and the timing of the operators of tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from copyrator.bundles.engine.context import BundleTiming
from copyrator.bundles.features.approval.permissions import ReviewTiming

Run = Callable[..., Any]
"""Starts an operator, with settings; a coroutine."""
Make = Callable[..., dict[str, Any]]
"""Makes a Bundle, with the fields of its spec."""
TIMING = BundleTiming(features=(ReviewTiming(pause=600.0),))
"""Of a test's operators. Reviews that are refused, as by default, aren't sent again: they would be
counted in a slow test."""
