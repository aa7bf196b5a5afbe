"""What processes that are forks make up for: what Python does when a program is started."""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import suppress


def follow(python_path: str) -> None:
    """Import `sitecustomize` of a folder that this process has been started without."""
    new = [folder for folder in python_path.split(os.pathsep) if folder and folder not in sys.path]
    if new:
        sys.path[:0] = new
        sys.modules.pop("sitecustomize", None)
        with suppress(ImportError):
            importlib.import_module("sitecustomize")
