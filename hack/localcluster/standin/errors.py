"""Errors of the stand-in."""

from __future__ import annotations


class WerfError(Exception):
    """Ends a command: the message is printed as ``Error: <message>``, the exit code is 1."""
