"""The CRDs of this version: in the installed package, or in the clone around it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

_PACKAGED = Path(__file__).parents[1] / "crds"
_CLONE = Path(__file__).parents[3] / "crds"


def crd_texts() -> list[str]:
    """The manifests of both CRDs as text."""
    home = _PACKAGED if _PACKAGED.is_dir() else _CLONE
    return [path.read_text() for path in sorted(home.glob("*.yaml"))]


@cache
def schemas() -> dict[str, dict[str, Any]]:
    """The schema of each kind of ours."""
    found = {}
    for text in crd_texts():
        spec = yaml.safe_load(text)["spec"]
        found[spec["names"]["kind"]] = spec["versions"][0]["schema"]["openAPIV3Schema"]
    return found
