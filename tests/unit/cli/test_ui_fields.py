"""The lines of `describe` on the pages."""

from datetime import UTC, datetime

from copyrator.cli.describe import condition_lines
from copyrator.cli.ui.pages import fields

AT = "2026-01-05T00:00:00Z"


def condition(kind: str, status: str, reason: str, message: str = "") -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": AT,
    }


def test_lines_below_a_label_keep_their_columns() -> None:
    conditions = [
        condition("Ready", "True", "Synced", "2 copies are up to date"),
        condition("CertificateExpiring", "False", "CertificatesValid"),
    ]
    now = datetime(2026, 1, 5, 0, 0, 30, tzinfo=UTC)
    lines = condition_lines({"status": {"conditions": conditions}}, now)
    assert fields(["Name:          home/tls", *lines]) == [
        ("Name", "home/tls"),
        (
            "Conditions",
            (
                "Ready                True     Synced (for 30s)\n"
                "  2 copies are up to date\n"
                "CertificateExpiring  False    CertificatesValid (for 30s)"
            ),
        ),
    ]
