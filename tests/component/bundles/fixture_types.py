"""The types of the fixtures `run` and `bundle`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Run = Callable[..., Any]
"""Starts an operator, with settings; a coroutine."""
Make = Callable[..., dict[str, Any]]
"""Makes a Bundle, with the fields of its spec."""
