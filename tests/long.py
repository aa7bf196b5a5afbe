"""How much a test does: a little in `make test`, all of it in `make test-long`."""

import os
from pathlib import Path

import pytest

LONG = bool(os.environ.get("COPYRATOR_LONG"))
_ROOT = Path(__file__).resolve().parents[1]


def long_form(covered_by: str) -> pytest.MarkDecorator:
    """Leave a test to `make test-long`.

    Args:
        covered_by: `path::name` of what fails in `make test` when the same behaviour breaks.
    """
    path, _, name = covered_by.partition("::")
    text = (_ROOT / path).read_text()
    assert f"def {name}(" in text, f"{covered_by} doesn't exist"
    return pytest.mark.skipif(not LONG, reason=f"make test-long; {covered_by} covers it")
