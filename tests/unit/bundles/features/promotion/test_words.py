"""What commands say of a Bundle: promotion."""

from __future__ import annotations

from typing import Any

from tests.unit.cli.view.test_bundle import DIGEST, OPEN, bundle, described, why

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
