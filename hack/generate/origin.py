"""Where releases come from, in the documents' commands: pyproject's `urls.Repository`."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from release import REGISTRY, REPOSITORY

ROOT = Path(__file__).resolve().parents[2]
_IMAGES = re.compile(r"ghcr\.io/[\w.-]+(?=/(charts/)?copyrator\b)")
_FILES = re.compile(r"https://github\.com/[\w.-]+/copyrator(?=/(releases/download|blob)/)")


def _named(document: Path) -> str:
    text = document.read_text(encoding="utf-8")
    return _FILES.sub(REPOSITORY, _IMAGES.sub(REGISTRY, text))


def _names(document: Path) -> bool:
    text = document.read_text(encoding="utf-8")
    return any(one.search(text) for one in (_IMAGES, _FILES))


FILES: dict[Path, Callable[[], str]] = {
    document: partial(_named, document)
    for document in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if _names(document)
}
