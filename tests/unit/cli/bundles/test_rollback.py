"""Which deploy of the history a rollback chooses, and when it has an outcome."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any, Self

import pytest
from tests.replacing import replace

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import Attempted, BundleStatus, Deployed, HistoryEntry, Outcome
from copyrator.api.schema import Packed
from copyrator.bundles.engine.bundle import read_entry
from copyrator.bundles.features.rollback.fields import PinStatus
from copyrator.bundles.features.rollback.pin import take_pin
from copyrator.bundles.fields import BundleDefaults
from copyrator.cli.bundles.rollback import (
    _announce,
    _rollback,
    _skip,
    _unpin,
    _unskip,
    choose_target,
    describe_skip,
    is_busy,
    is_decided,
)
from copyrator.cli.core import waiting
from copyrator.cli.core.faults import Fault
from copyrator.cli.core.objects import ObjectOptions
from copyrator.cli.core.output import Format
from copyrator.kube.errors import ConflictError

HERE, OTHER = "registry.example.com/app", "registry.example.com/other"
A, B, C, D = (f"sha256:{letter * 64}" for letter in "abcd")


def status(
    *deploys: tuple[str, str],
    pinned: str | None = None,
    attempted: str = "",
    where: str | None = HERE,
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
    ).with_part(PinStatus(digest=pinned))


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
        (status(("1", A)), None, "no earlier successful deploy in its history$"),
        (status(*THREE, where=OTHER), "1", f"which has: none; it has 1 from {OTHER}"),
        (
            status(("2", B), ("-1", A)),
            "1",
            "no successful deploy of 1 in its history, which has: 2",
        ),
        (status(*THREE), "9", "which has: 3, 2, 1$"),
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


def test_a_deploy_without_a_revision_is_not_named_by_none() -> None:
    past = [replace(one, revision=None) for one in status(*THREE).past]
    found = replace(status(*THREE), history=Packed.pack(past))
    with pytest.raises(ValueError, match="no successful deploy of None"):
        choose_target(found, HERE, "None")


# --- the commands ---------------------------------------------------------------------------------

READY = ("True", "Deployed", f"2 ({B[:19]}) is deployed")


def body(ready: tuple[str, str, str], pending: tuple[str, str] = ("", ""), **found: Any) -> Any:
    conditions = [
        dict(zip(("type", "status", "reason", "message"), ("Ready", *ready), strict=True)),
        dict(zip(("type", "status", "reason"), ("UpdatePending", *pending), strict=True)),
    ]
    return {
        "metadata": {"namespace": "team", "name": "shop", "uid": "u", "resourceVersion": "7"},
        "spec": {"registry": "registry.example.com", "repo": "app"},
        "status": {"conditions": conditions, **found},
    }


@pytest.mark.parametrize(
    ("ready", "found", "waited", "decided"),
    [
        (READY, {}, 0.0, False),
        (READY, {"target": {"digest": A}}, 0.0, True),
        (("False", "DeployFailed", f"2 ({B[:19]}): it failed. 1 ({A[:19]}) runs"), {}, 1.0, False),
        (("False", "Unsigned", f"1 ({A[:19]}): it has no signature"), {}, 0.0, True),
        (("Unknown", "VerificationUnavailable", f"1 ({A[:19]}): keys are missing"), {}, 0.0, True),
        (("False", "RegistryUnreachable", f"it responds with 500 to GET /{A}"), {}, 0.0, True),
        (("False", "AuthenticationFailed", "it requires credentials"), {}, 10.0, False),
        (("False", "AuthenticationFailed", "it requires credentials"), {}, 16.0, True),
        (("Unknown", "Polling", "Polling the registry"), {}, 100.0, False),
    ],
)
def test_a_rollback_is_decided_when_the_status_is_about_it(
    ready: tuple[str, str, str], found: dict[str, Any], waited: float, decided: bool
) -> None:
    chosen = HistoryEntry(version="1", digest=A)
    assert is_decided(body(ready, **found), chosen, waited) is decided


@pytest.mark.parametrize(
    ("ready", "pending", "deployed", "busy"),
    [
        (("True", "Deployed", ""), ("True", "Pinned"), A, False),
        (("True", "Deployed", ""), ("True", "Pinned"), B, True),
        (("Unknown", "Deploying", ""), ("True", "Pinned"), A, True),
        (("Unknown", "Planning", ""), ("True", "Planning"), B, True),
        (("Unknown", "Frozen", ""), ("True", "Frozen"), B, False),
        (("False", "DeployFailed", ""), ("True", "Pinned"), B, False),
    ],
)
def test_a_rollback_is_waited_for_while_it_goes_on(
    ready: tuple[str, str, str], pending: tuple[str, str], deployed: str, busy: bool
) -> None:
    assert is_busy(body(ready, pending, deployed={"digest": deployed}), A) is busy


class Server:
    """An API server with one Bundle, whose pin an operator takes at each read."""

    def __init__(self, found: Any) -> None:
        self.body = found
        self.pins: list[str | None] = []
        """What the operator has seen as pinned."""
        self.rivals = 0
        """Writes of others that come before ours."""

    def locate(self, name: str) -> tuple[str, str]:
        return "team", name

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Self]:
        yield self

    async def get(self, *_: Any) -> Any:
        self.operate()
        return self.body

    async def patch(
        self, _res: Any, _ns: str, _name: str, patch: Any, field_manager: str = "copyrator-cli"
    ) -> Any:
        assert field_manager == "copyrator-cli"
        if self.rivals:
            self.rivals -= 1
            raise ConflictError
        annotations = self.body["metadata"].setdefault("annotations", {})
        annotations.update(patch["metadata"]["annotations"])
        for key in [key for key, value in annotations.items() if value is None]:
            del annotations[key]
        return deepcopy(self.body)

    def operate(self) -> None:
        entry = read_entry(self.body, BundleDefaults())
        assert isinstance(entry.spec, BundleSpec)
        found = take_pin(entry.annotations, entry.spec, entry.status, datetime.now(UTC))
        self.pins.append(found.part(PinStatus).digest)
        self.body = {**self.body, "status": found.to_dict()}

    def options(self) -> ObjectOptions:
        target: Any = self
        return ObjectOptions(target=target, name="shop", shape=None)


def test_a_deploy_that_goes_on_although_it_is_skipped_is_named() -> None:
    for digest, outcome in ((A, "Running"), (A, "Failed"), (B, "Running")):
        attempted = {"attempt": 2, "digest": digest, "outcome": outcome}
        text = describe_skip(body(READY, attempted=attempted), "3", A)
        assert text.startswith(f"bundle team/shop skips {A}, the newest of 3 that the operator ")
        assert text.endswith("To end that: copyrator unskip bundle team/shop 3")
        goes_on = "Its deploy continues; roll back when it has ended." in text
        assert goes_on is ((digest, outcome) == (A, "Running"))


async def test_what_is_pinned_is_not_skipped() -> None:
    past = [one.to_dict() for one in status(*THREE).past]
    server: Any = Server(body(READY, history=past, deployed={"digest": B}))
    pin = {"operator.werf.dev/pin": f"1@{A}"}
    await server.patch(None, "", "", {"metadata": {"annotations": pin}})
    with pytest.raises(Fault, match=f"is pinned to {A} .* nothing was changed.*unpin bundle"):
        await _skip(server.options(), A)
    assert server.body["metadata"]["annotations"] == pin


SKIPPED, PIN = "operator.werf.dev/skip-digests", "operator.werf.dev/pin"


def skipping(*digests: str, **found: Any) -> Server:
    server = Server(body(READY, **found))
    if digests:
        server.body["metadata"]["annotations"] = {SKIPPED: ",".join(digests)}
    return server


def skipped(server: Server) -> list[str]:
    value = server.body["metadata"].get("annotations", {}).get(SKIPPED)
    return [] if value is None else value.split(",")


async def test_a_digest_is_added_to_those_that_are_skipped_also_after_conflicts() -> None:
    server: Any = skipping(B)
    server.rivals = 4
    _, digest = await _skip(server.options(), A)
    assert (digest, skipped(server)) == (A, [B, A])
    await _skip(server.options(), A)
    assert skipped(server) == [B, A], "it is there once"
    server.rivals = 5
    with pytest.raises(Fault, match="is changed all the time by others"):
        await _skip(server.options(), C)


async def test_what_runs_and_what_is_too_many_is_not_skipped() -> None:
    server: Any = skipping(deployed={"digest": A})
    with pytest.raises(Fault, match=f"{A} .* is what bundle team/shop runs.*rollback bundle"):
        await _skip(server.options(), A)
    assert skipped(server) == []
    many = [f"sha256:{number:064x}" for number in range(20)]
    server = skipping(*many)
    with pytest.raises(Fault, match="skips 20 digests already"):
        await _skip(server.options(), A)
    await _skip(server.options(), many[7])
    assert skipped(server) == many


@pytest.mark.parametrize(
    ("word", "found", "left"),
    [
        (A, {}, [B]),
        ("sha256:aaaaaaa", {}, [B]),
        ("1", {"history": [{"version": "1", "digest": A, "outcome": "Failed"}]}, [B]),
        ("1", {"candidates": [{"version": "1", "digest": B}]}, [A]),
        ("1", {"available": {"version": "1", "digest": B}}, [A]),
        ("1", {"attempted": {"attempt": 1, "version": "1", "digest": A}}, [B]),
    ],
)
async def test_a_digest_is_not_skipped_any_more_by_what_the_status_knows(
    word: str, found: dict[str, Any], left: list[str]
) -> None:
    server: Any = skipping(A, B, **found)
    await _unskip(server.options(), word)
    assert skipped(server) == left
    await _unskip(server.options(), left[0])
    assert SKIPPED not in server.body["metadata"]["annotations"]


async def test_what_is_skipped_is_named_where_a_version_is_not_known_any_more() -> None:
    server: Any = skipping(A, B)
    with pytest.raises(Fault) as caught:
        await _unskip(server.options(), "9")
    assert caught.value.message == f"bundle team/shop doesn't skip 9; it skips: {A}, {B}"
    with pytest.raises(Fault, match="doesn't skip 9; it skips: none"):
        await _unskip(skipping().options(), "9")
    assert skipped(server) == [A, B]


@pytest.mark.parametrize(
    ("found", "digest"),
    [
        ({"available": {"version": "2", "digest": A}}, A),
        (
            {
                "available": {"version": "3", "digest": D},
                "candidates": [
                    {"version": "2", "digest": B, "firstSeen": "2026-01-01T00:00:00Z"},
                    {"version": "2", "digest": C, "firstSeen": "2026-01-02T00:00:00Z"},
                ],
                "attempted": {"attempt": 1, "version": "2", "digest": A},
            },
            C,
        ),
        ({"history": [{"version": "2", "digest": B}, {"version": "2", "digest": A}]}, B),
    ],
)
async def test_a_tag_has_the_newest_digest_that_the_operator_has_seen(
    found: dict[str, Any], digest: str
) -> None:
    server: Any = skipping(**found)
    await _skip(server.options(), "2")
    assert skipped(server) == [digest]


# --- unpin ----------------------------------------------------------------------------------------


async def test_a_value_that_was_refused_before_counts_again_and_the_pin_in_force_stays_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting, "LOOK", 0.0)
    past = [one.to_dict() for one in status(*THREE).past]
    server = Server(body(READY, history=past[1:]))
    for value in (f"2@{B}", f"3@{C}"):
        annotations = {"annotations": {"operator.werf.dev/pin": value}}
        await server.patch(None, "", "", {"metadata": annotations})
        server.operate()
    assert server.body["status"]["pin"]["refused"]
    server.body["status"]["history"] = past
    options: Any = server.options()
    found, chosen = await _rollback(options, "3")
    assert chosen.digest == C
    assert found["metadata"]["annotations"] == {"operator.werf.dev/pin": f"3@{C}"}
    server.operate()
    assert server.body["status"]["pin"]["digest"] == C
    assert None not in server.pins, "what the spec names would be deployed"
    _, chosen = await _rollback(replace(options, shape=Format.JSON), "2")
    assert chosen.digest == B


async def test_a_version_that_the_operator_hasnt_seen_isnt_skipped() -> None:
    server: Any = skipping(A)
    with pytest.raises(Fault, match=r"hasn't seen a version 9.*: copyrator resolve "):
        await _skip(server.options(), "9")
    assert skipped(server) == [A]


def test_a_rollback_says_from_what_also_where_that_has_failed_or_runs_already() -> None:
    found = status(("-3", C), ("2", B), ("1", A))
    found = replace(found, attempted=replace(found.attempted, version="3"))
    about = body(READY, **found.to_dict())
    left = f"Rolling back bundle team/shop from 3 ({C[:19]}) to 2 ({B[:19]})"
    assert _announce(about, found, choose_target(found, HERE, None)).startswith(left)
    found = status(*THREE)
    runs = f"Pinning bundle team/shop to what runs, 3 ({C[:19]})."
    assert _announce(about, found, choose_target(found, HERE, "3")) == runs


async def unpins(server: Server, seconds: float = 5.0) -> str:
    _, done = await _unpin(replace(server.options(), timeout=seconds))
    return done.removeprefix("bundle team/shop ")


async def test_unpin_ends_a_pin_and_what_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "LOOK", 0.0)
    server = Server(body(READY, history=[one.to_dict() for one in status(*THREE).past]))
    assert await unpins(server) == "isn't pinned."
    assert "annotations" not in server.body["metadata"], "nothing is written"

    async def annotates(value: str) -> None:
        await server.patch(None, "", "", {"metadata": {"annotations": {PIN: value}}})

    await annotates(f"9@{A}")
    server.operate()
    assert server.body["status"]["pin"]["refused"]
    refused = "isn't pinned; the value that was refused is replaced by none."
    assert await unpins(server) == refused
    assert server.body["status"]["pin"] == {"requested": "none"}
    for value in (f"1@{A}", f"9@{A}"):  # the pin in force, and one that is refused
        await annotates(value)
        server.operate()
    assert (await unpins(server)).startswith(
        f"isn't pinned to 1 ({A[:19]}) any more. What its spec"
    )
    assert server.body["metadata"]["annotations"] == {PIN: "none"}
    await annotates(f"2@{B}")  # not seen yet
    server.operate = lambda: None  # type: ignore[method-assign]
    assert (await unpins(server, 0.0)).startswith(f"isn't pinned to 2@{B} any more.")
