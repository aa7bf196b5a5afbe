"""The Bundles that exist, as their last event or our last write told."""

from __future__ import annotations


class BundleRegistry:
    """Every Bundle by its key."""
