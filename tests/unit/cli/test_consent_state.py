"""What `why` and `describe` say of a release in another namespace."""

from datetime import UTC, datetime
from typing import Any

import pytest

from copyrator.cli.core.installation import Installation
from copyrator.cli.get.describe import bundle_lines
from copyrator.cli.view.why_bundle import explain_bundle
from copyrator.settings.config import Settings

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
INSTALLATION = Installation(settings=Settings(), namespace="copyrator")


def lines(consent: Any, where: str | None = "prod") -> list[str]:
    body = {
        "metadata": {"namespace": "apps", "name": "shop", "generation": 1},
        "spec": {"registry": "r.example.com", "repo": "shop", "project_namespace": where},
        "status": {"consent": consent},
    }
    shown = [*explain_bundle(body, INSTALLATION, NOW), *bundle_lines(body, NOW, INSTALLATION)]
    return [line.strip() for line in shown if "onsent" in line]


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
def test_the_state_is_shown(consent: Any, verdict: str, text: str) -> None:
    why, described = lines(consent)
    assert why == f"consent: {verdict}: the release in namespace prod {text}."
    assert described.split(maxsplit=1) == ["Consent:", text]


def test_nothing_is_shown_of_a_release_in_the_bundles_namespace() -> None:
    assert lines({"namespace": "prod", "state": "Accepted"}, None) == []
    assert lines(None, "apps") == []
