"""What commands say of a Bundle: previews."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.bundles.features.approval.test_words import CONTENTS
from tests.unit.cli.view.objects_seen import PLAN
from tests.unit.cli.view.test_bundle import bundle, described


@pytest.mark.parametrize(("preview", "text"), CONTENTS)
def test_contents_are_said(preview: dict[str, Any], text: str) -> None:
    line = f"  Contents:      {text}"
    body = bundle(preview=PLAN | preview)
    assert described(body, "Preview")[1:] == ([line] if text else [])


FAILED = {
    "outcome": "Failed",
    "requestedVersion": "1.2",
    "reason": "PlanFailed",
    "message": "no",
}


@pytest.mark.parametrize(
    ("preview", "line"),
    [
        (
            {"outcome": "Running", "version": "1.2.0", "job": "j"},
            "1.2.0, being made by the Job j",
        ),
        (FAILED, "1.2 isn't planned: PlanFailed: no"),
    ],
    ids=["running", "failed"],
)
def test_what_describe_says_of_it(preview: dict[str, Any], line: str) -> None:
    assert described(bundle(preview=preview), "Preview") == [f"{'Preview:':<15}{line}"]
