"""The rules that exist, as their last event told."""

from __future__ import annotations


class RuleRegistry:
    """Every CopyratorRule by its key."""
