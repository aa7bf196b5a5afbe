"""The lines of `describe` on the pages, and the numbers of the first page."""

from datetime import UTC, datetime
from typing import Any

from tests.unit.cli.view.objects_seen import bundle, rule, seen

from copyrator.api.keys import ObjectName
from copyrator.api.text import Detail
from copyrator.cli.ui.bundle_page import Readings
from copyrator.cli.ui.pages import Pages
from copyrator.cli.view.bundle import BundleView
from copyrator.cli.view.lists import View, matrix
from copyrator.cli.view.overview import SeenCopies, overview
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


def test_the_page_counts_what_is_suspended_apart_where_there_is_any() -> None:
    def text(*bodies: dict[str, Any]) -> str:
        known, now = seen(*bodies), datetime(2026, 1, 5, tzinfo=UTC)
        return Pages(cluster="c", user="ann").overview(known, overview(known, now), fragment=True)

    shown = text(rule("a", "False", "Suspended", message="suspended; before: Synced: x"), rule("b"))
    assert "<b>0</b> Failing" in shown
    assert '<b class="suspended">1</b> Suspended' in shown
    assert "‖ Suspended" in shown
    assert "suspended; before: Synced: x" in shown
    assert "Suspended" not in text(rule("b"))


def test_a_plan_is_decided_on_its_page_only_while_it_waits() -> None:
    waits = condition("UpdatePending", "True", "AwaitingApproval")
    for conditions, decides in (([waits], True), ([], False)):
        plan = {"outcome": "Planned", "id": "a" * 32}
        body = bundle("b", plan=plan, conditions=conditions)
        view = BundleView(body, datetime(2026, 1, 5, tzinfo=UTC))
        text = Pages(cluster="c", user="ann").bundle(seen(body), view, Readings(), fragment=True)
        assert ("/do/approve/bundles/infra/b" in text) is decides


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
