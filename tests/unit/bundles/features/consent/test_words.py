"""What commands say of a Bundle: consent."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.cli.view.test_bundle import bundle, described, view_of

from copyrator.cli.view.why_bundle import explain_bundle


@pytest.mark.parametrize(
    ("consent", "verdict", "text"),
    [
        (
            {"namespace": "prod", "state": "Accepted", "by": "Annotation"},
            "passed",
            "is accepted by its annotation operator.werf.dev/accept-from",
        ),
        (
            {"namespace": "prod", "state": "Accepted", "by": "Permission"},
            "passed",
            "is accepted as the Job's service account may create Secrets there",
        ),
        ({"namespace": "prod", "state": "Accepted", "by": "\x1b[2J"}, "passed", "is accepted"),
        (
            {"namespace": "prod", "state": "Assumed"},
            "passed",
            "counts as accepted, as it was deployed before that was asked",
        ),
        ({"namespace": "prod", "state": "NotAccepted"}, "refused", "isn't accepted"),
        ({"namespace": "old", "state": "Accepted"}, "waiting", "hasn't been asked yet"),
        ({"namespace": "prod", "state": "\x1b[2J"}, "waiting", "hasn't been asked yet"),
        (None, "waiting", "hasn't been asked yet"),
    ],
)
def test_whether_another_namespace_accepts_the_release(
    consent: Any, verdict: str, text: str
) -> None:
    body = bundle({"project_namespace": "prod"}, consent=consent)
    assert f"  consent: {verdict}: the release in namespace prod {text}." in list(
        explain_bundle(view_of(body))
    )
    assert described(body, "Consent") == [f"Consent:       {text}"]
