"""The features of Bundles: each is a folder here, and its name in FEATURES is all that knows it.

They are loaded by name (docs/adr/0067-features.md), so nothing imports a feature.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from copyrator.bundles.gates.gate import Gates

if TYPE_CHECKING:
    from copyrator.bundles.context import Context
    from copyrator.bundles.engine.feature import Feature
    from copyrator.bundles.engine.words import Words

FEATURES: Final = (
    "consent",
    "cluster",
    "health",
    "rollback",
    "signatures",
    "charts",
    "age",
    "promotion",
    "attest",
    "dependencies",
    "freeze",
    "windows",
    "login",
    "approval",
    "drift",
)
"""In the order of their steps and gates.

``feature.py`` in each folder has ``FEATURE``, the class; ``gates.py``, where it has gates, has
``GATES`` without what only the operator's process knows, and ``words.py``, where something is said
of it, ``WORDS``.
"""


def make_features(context: Context) -> tuple[Feature, ...]:
    """All features, made for a controller."""
    made = (import_module(f"{__name__}.{name}.feature").FEATURE(context) for name in FEATURES)
    return tuple(made)


def load_gates() -> Gates:
    """The gates of all features, as commands know them."""
    modules = (f"{__name__}.{name}.gates" for name in FEATURES)
    return Gates.joined(import_module(one).GATES for one in modules if find_spec(one))


def load_words() -> tuple[Words, ...]:
    """What all features say of Bundles."""
    return _words_of(FEATURES)


@cache
def _words_of(names: tuple[str, ...]) -> tuple[Words, ...]:
    modules = (f"{__name__}.{name}.words" for name in names)
    return tuple(import_module(one).WORDS for one in modules if find_spec(one))
