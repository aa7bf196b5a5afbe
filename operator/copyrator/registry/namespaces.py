"""The namespaces that exist, as targets."""

from __future__ import annotations


class Namespaces:
    """Every namespace by its name."""
