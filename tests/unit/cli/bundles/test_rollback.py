"""Which deploy of the history a rollback chooses."""

from __future__ import annotations

import pytest

from copyrator.api.bundle_status import (
    Attempted,
    BundleStatus,
    Deployed,
    HistoryEntry,
    Outcome,
    PinStatus,
)
from copyrator.api.records import Packed
from copyrator.cli.bundles.rollback import choose_target

HERE, OTHER = "registry.example.com/app", "registry.example.com/other"
A, B, C, D = (f"sha256:{letter * 64}" for letter in "abcd")


def status(
    *deploys: tuple[str, str], pinned: str | None = None, attempted: str = "", where: str = HERE
) -> BundleStatus:
    """After these deploys, newest first, each a version and its digest; ``-`` before: failed."""
    past = [
        HistoryEntry(
            version=version.lstrip("-"),
            digest=digest,
            reference=where,
            revision=len(deploys) - at,
            outcome=Outcome.FAILED if version.startswith("-") else Outcome.SUCCEEDED,
        )
        for at, (version, digest) in enumerate(deploys)
    ]
    runs = next((at.digest for at in past if at.outcome == Outcome.SUCCEEDED), None)
    return BundleStatus(
        history=Packed.pack(past),
        deployed=Deployed(digest=runs),
        attempted=Attempted(attempt=1, digest=attempted or (past[0].digest if past else None)),
        pin=PinStatus(digest=pinned),
    )


THREE = (("3", C), ("2", B), ("1", A))


@pytest.mark.parametrize(
    ("found", "to", "digest"),
    [
        (status(*THREE), None, B),
        (status(("3", C), ("3", C), ("2", B)), None, B),
        (status(("-3", C), ("2", B), ("1", A)), None, B),
        (status(("2", B), ("1", A), attempted=C), None, B),
        (status(("2", B), *THREE, pinned=B), None, A),
        (status(("2", B), *THREE), None, C),
        (status(*THREE), "1", A),
        (status(*THREE), A, A),
        (status(*THREE), "sha256:aaaaaaa", A),
        (status(*THREE), "aaaaaaaaaaaa", A),
        (status(("c", C), ("b", B), ("a", A)), "2", B),
        (status(("main", C), ("main", B)), "main", B),
        (status(*THREE), "3", C),
    ],
)
def test_the_chosen_deploy(found: BundleStatus, to: str | None, digest: str) -> None:
    assert choose_target(found, HERE, to).digest == digest


@pytest.mark.parametrize(
    ("found", "to", "text"),
    [
        (status(), None, "no earlier successful deploy"),
        (status(("1", A)), None, "no earlier successful deploy"),
        (status(*THREE, where=OTHER), "1", "which has: none"),
        (
            status(("2", B), ("-1", A)),
            "1",
            "no successful deploy of 1 in its history, which has: 2",
        ),
        (status(*THREE), "9", "which has: 3, 2, 1"),
        (status(("2", B), *THREE[:2], pinned=B), None, "no earlier"),
        (
            status(("2", D), ("main", C), ("main", B)),
            "main",
            "several digests of main in its history, name one: sha256:cccccccccccc, sha256:b",
        ),
    ],
)
def test_where_there_is_none_or_several_the_text_says_which(
    found: BundleStatus, to: str | None, text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        choose_target(found, HERE, to)
