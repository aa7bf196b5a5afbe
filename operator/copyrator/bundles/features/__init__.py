"""The features of Bundles: each is a folder here, and its name in FEATURES is all that knows it.

They are loaded by name (docs/adr/0067-features.md), so nothing imports a feature.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

FEATURES: Final = (
    "consent",
    "login",
    "rollback",
    "signatures",
    "charts",
    "age",
    "promotion",
    "attest",
    "dependencies",
    "freeze",
    "windows",
    "approval",
    "previews",
    "drift",
    "health",
    "cluster",
)
"""In the order of their steps and gates, and of their fields in the CRD."""


def load(module: str) -> tuple[ModuleType, ...]:
    """The modules of this name in their folders; each may be left out, but for ``feature``.

    - ``feature``: ``FEATURE``, the class with its points.
    - ``fields``: ``SPEC`` and ``STATUS``, its parts of a Bundle; ``CONDITIONS`` of its own;
      ``TEXTS``, Enums whose texts stand in many statuses, which share them. Each may be left out.
    - ``reasons``: ``REASONS`` of Ready and gates, and ``EVENTS`` that no condition has. Each may be
      left out.
    - ``gates``: ``GATES``, without what only the operator's process knows.
    - ``defaults``: ``make_policy``, what it makes of the settings for ``BundleDefaults.policies``;
      it may be None.
    - ``settings``: ``SETTINGS``, its groups of the operator's settings (``settings/options.py``).
    - ``words``: ``WORDS``, what is said of it.
    - ``metrics``: ``METRICS``, the class of what only it counts.
    """
    return _load(module, FEATURES)


def listed(module: str, name: str) -> Iterator[Any]:
    """What those modules list under a name."""
    return (one for found in load(module) for one in getattr(found, name, ()))


@cache
def _load(module: str, names: tuple[str, ...]) -> tuple[ModuleType, ...]:
    modules = (f"{__name__}.{name}.{module}" for name in names)
    return tuple(import_module(one) for one in modules if find_spec(one))
