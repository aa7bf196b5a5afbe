"""What `describe` and `why` say of a Bundle's soak."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from copyrator.cli.view.bundle import describe_soak, explain_soak

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
DIGEST = "sha256:" + "a" * 64
OTHER = "sha256:" + "b" * 64
OPEN = {"version": "1.4.2", "digest": DIGEST, "since": "2026-01-02T09:00:00Z"}
ENDED = {
    "version": "1.4.1",
    "digest": OTHER,
    "since": "2026-01-01T09:00:00Z",
    "until": "2026-01-02T08:00:00Z",
    "longest": "23h",
    "brokenBy": "a deploy of 1.4.2 began",
}


def body(*soak: dict[str, Any], **annotations: str) -> dict[str, Any]:
    named = {f"operator.werf.dev/{key}": value for key, value in annotations.items()}
    return {
        "metadata": {"namespace": "staging", "name": "shop", "annotations": named},
        "status": {"deployed": {"digest": DIGEST}, "soak": list(soak)},
    }


def test_nothing_is_said_where_nobody_is_promoted_from_it() -> None:
    assert list(describe_soak(body(), NOW)) == []
    assert list(explain_soak(body(), NOW)) == []


def test_each_version_is_described_the_newest_first() -> None:
    lines = list(describe_soak(body(ENDED, OPEN, **{"promote-to": "prod*", "hold": "x\n"}), NOW))
    assert lines == [
        "Promoted to:   prod*",
        "Held:          x; copyrator unhold bundle staging/shop",
        "Soak:",
        "  1.4.2        aaaaaaaaaaaa  has been deployed since 2026-01-02T09:00:00Z, for 3h",
        (
            "  1.4.1        bbbbbbbbbbbb  was deployed for 23h at most, until 2026-01-02T08:00:00Z "
            "(a deploy of 1.4.2 began)"
        ),
    ]


def test_why_says_it_of_what_is_deployed() -> None:
    assert list(explain_soak(body(ENDED, {**OPEN, "longest": "5h"}), NOW)) == [
        (
            "For Bundles that are promoted from this one, it has been deployed since "
            "2026-01-02T09:00:00Z, for 3h; 5h before."
        )
    ]
    broken = {**OPEN, "until": "2026-01-02T10:00:00Z", "brokenBy": "it was held: \x1b[31mx"}
    lines = list(explain_soak(body(broken, hold="x"), NOW))
    assert lines[0].endswith(
        "it doesn't count since 2026-01-02T10:00:00Z (it was held: \\x1b[31mx)."
    )
    assert lines[1] == "It is held: x. To end that: copyrator unhold bundle staging/shop"
