"""What commands, the page and notices say of a Bundle: promotion."""

from __future__ import annotations

from typing import Any

from tests.unit.cli.view.test_bundle import DIGEST, OPEN, bundle, described, why
from tests.unit.cli.view.test_timeline import bundle as with_history
from tests.unit.cli.view.test_timeline import digest, entry, shown
from tests.unit.cli.view.test_why_bundle import NOW, PROMOTION, read

from copyrator.cli.view.why_bundle import explain_next

ENDED = {
    "version": "1.4.1",
    "digest": "sha256:" + "b" * 64,
    "since": "2026-01-01T09:00:00Z",
    "until": "2026-01-02T08:00:00Z",
    "longest": "23h",
    "brokenBy": "a deploy of 1.4.2 began",
}


def soaking(*soak: dict[str, Any], **annotations: str) -> dict[str, Any]:
    return bundle({}, annotations, deployed={"digest": DIGEST}, soak=list(soak))


def test_the_soak_of_each_version_is_described_the_newest_first() -> None:
    body = soaking(ENDED, OPEN, **{"promote-to": "prod*", "hold": "x\n"})
    assert described(body, "Promoted to", "Held", "Soak") == [
        "Promoted to:   prod*",
        "Held:          x; copyrator unhold bundle apps/shop",
        "Soak:",
        "  1.4.2        aaaaaaaaaaaa  has been deployed since 2026-01-02T09:00:00Z, for 3h",
        (
            "  1.4.1        bbbbbbbbbbbb  was deployed for 23h at most, until 2026-01-02T08:00:00Z "
            "(a deploy of 1.4.2 began)"
        ),
    ]


def test_why_says_the_soak_and_that_it_is_held() -> None:
    assert why(soaking({**OPEN, "longest": "5h"}), "Soak:")[1].endswith(", for 3h; 5h before")
    broken = {**OPEN, "until": "2026-01-02T10:00:00Z", "brokenBy": "it was held: \x1b[31mx"}
    body = soaking(broken, hold="x")
    line = why(body, "Soak:")[1]
    assert line.endswith("doesn't count since 2026-01-02T10:00:00Z (it was held: \\x1b[31mx)")
    assert why(body, "Held:") == ["Held:          x; copyrator unhold bundle apps/shop"]


def test_many_sources_are_not_all_named():
    many = {"bundles": [{"name": f"b{n}"} for n in range(5)], "soak": "1h"}
    (line,) = explain_next(*read(PROMOTION, promoteFrom=many), NOW)
    assert "its soak of 1h in apps/b0, apps/b1, apps/b2 and 2 more ends" in line


def test_a_version_was_promoted_from_the_bundle_that_had_it_before() -> None:
    soak = [{"version": "1.0", "digest": digest("a"), "since": "2026-01-01T12:00:00Z"}]
    staging = with_history("staging", soak=soak)
    later = with_history("later", history=[entry(5, "1.0", "a")])
    broken = with_history("broken", history=[entry(1, "1.0", "a", "Failed")])
    body = with_history(history=[entry(3, "1.0", "a")])
    assert shown(body, staging, later, broken) == [
        ("Deployed", "1.0", "promoted from apps/staging")
    ]
    assert shown(body, later, broken) == [("Deployed", "1.0")]
