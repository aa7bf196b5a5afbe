"""The lines of `describe` on the pages, and the numbers of the first page."""

from datetime import UTC, datetime

from tests.unit.cli.view.objects_seen import rule, seen

from copyrator.api.keys import ObjectName
from copyrator.api.text import Detail
from copyrator.cli.ui.pages import Pages
from copyrator.cli.view.lists import View, matrix
from copyrator.cli.view.overview import SeenCopies
from copyrator.cli.view.rows import describe_conditions

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
    parts = describe_conditions("rules", {"status": {"conditions": conditions}}, now)
    shown = [Detail("Name", "home/tls"), *parts]
    assert [(one.label, one.text) for one in shown] == [
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


def test_one_is_in_the_singular() -> None:
    known = seen(rule("a"), copies=one_copy())
    pages, now = Pages(cluster="c", user="ann"), datetime(2026, 1, 5, tzinfo=UTC)
    text = pages.matrix(known, matrix(known, View(), now), fragment=True)
    assert "1 rule and 1 namespace; 1 copy in all" in text
    assert 'title="copies in 1 namespace"' in text


def one_copy() -> SeenCopies:
    found = SeenCopies()
    found.add("infra/a", "Secret", ObjectName("team-a", "s"))
    return found
