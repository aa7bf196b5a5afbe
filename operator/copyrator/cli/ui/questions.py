"""What can be done on the page of a rule or Bundle: what is asked before, and what is written.

Each verb does what the command of that name does. A form about a Bundle's versions has a seal of
the state that it is about: where the Bundle differs from it, nothing is written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from copyrator.api import names
from copyrator.api.bundle_status import HistoryEntry
from copyrator.api.text import said, time_since
from copyrator.bundles.features.promotion.fields import MAX_HOLD_TEXT, shown_hold
from copyrator.bundles.features.rollback.fields import PinStatus, rollback_targets
from copyrator.bundles.fields import parse_status
from copyrator.bundles.jobs.identity import hash_of
from copyrator.cli.bundles import attest, rollback
from copyrator.cli.core.faults import Fault, hint_about, reason_fault
from copyrator.cli.core.installation import describe_lacking
from copyrator.cli.core.objects import SINGULAR, Body, annotations_of, one, shown
from copyrator.cli.core.reconcile import Confirm, annotated, set_suspend
from copyrator.cli.ui.parts import segment

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

SEEN_WITHIN: Final = 10.0
"""Seconds that a page waits for the operator, before a version can be rolled back to anew."""
MOST: Final = 50
"""Versions to choose from."""


@dataclass(frozen=True, slots=True)
class PageAction:
    """An action that a page offers."""

    verb: str
    text: str
    path: str


@dataclass(frozen=True, slots=True)
class Choice:
    """A version, which has a button of its own."""

    digest: str
    button: str
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked before something is written."""

    effect: str
    command: str
    """Does the same."""
    choices: Sequence[Choice] = ()
    """Empty where nothing is to be chosen."""
    longest_reason: int = 0
    """Characters of the reason that has to be given; 0: none is asked for."""
    seal: str = ""
    """Of the state that it is about."""


class Answer(NamedTuple):
    """What a form has, beside its token."""

    seal: str = ""
    digest: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of what a Bundle deploys, or of what is promoted from it."""

    words: str
    ask: Callable[[Body], Question]
    """Raises a Fault where it can't be done."""
    write: Callable[[KubeClient, dict[str, Any], Answer, Confirm], Awaitable[str]]
    """Returns a sentence."""
    preposition: str = ""
    """Between the words and the Bundle."""


def _seal(body: Body, *facts: str | None) -> str:
    return hash_of(str(body["metadata"].get("uid")), *facts)


def _ask_rollback(body: Body) -> Question:
    status, now = parse_status(body), datetime.now(UTC)
    runs, found = rollback.what_runs(status), dict[str, HistoryEntry]()
    for at in rollback_targets(status, rollback.spec_of(body).reference):
        if at.digest and at.digest != runs.digest:
            found.setdefault(at.digest, at)
    if not found:
        raise Fault(f"{shown('bundles', body)} has no other successful deploy in its history")
    when = "when it is resumed" if rollback.suspends(body) else "next"
    return Question(
        f"The version that you choose replaces {rollback.describe_version(runs)}. It is deployed "
        f"{when}, by its digest, with today's values and spec, and no other one until it is "
        "unpinned. Signatures, freezes, windows and approval count; minAge, promoteFrom and "
        "dependsOn are passed over.",
        f"{hint_about('rollback', 'bundle', body)} --to VERSION",
        [
            Choice(
                digest,
                f"Roll back to {rollback.describe_version(at)}",
                f"deployed {time_since(at.time, now)} ago",
            )
            for digest, at in found.items()
        ],
        seal=_seal(body, runs.digest, status.part(PinStatus).digest, _asked_pin(body)),
    )


def _asked_pin(body: Body) -> str | None:
    """The annotation, while the operator hasn't seen it."""
    asked = annotations_of(body).get(names.ANN_PIN)
    return None if asked == parse_status(body).part(PinStatus).requested else asked


async def _roll_back(
    client: KubeClient, body: dict[str, Any], answer: Answer, confirm: Confirm
) -> str:
    chosen = rollback.choose(body, answer.digest)
    body = await rollback.pin_to(client, body, chosen, confirm, SEEN_WITHIN)
    return rollback.describe_pinned(body, chosen)


def _ask_unpin(body: Body) -> Question:
    pin, asked = parse_status(body).part(PinStatus), _asked_pin(body)
    if pin.digest is None and pin.refused is None and asked in (None, names.NO_PIN):
        raise Fault(f"{shown('bundles', body)} isn't pinned")
    effect = "What its spec names is deployed again"
    if pin.digest is not None:
        effect += f", in place of {rollback.describe_version(pin)}, which is pinned"
    elif asked is None:
        effect = "Nothing is pinned; the value that was refused is removed"
    return Question(
        f"{effect}.",
        hint_about("unpin", "bundle", body),
        seal=_seal(body, pin.digest, pin.refused, asked),
    )


async def _unpin(client: KubeClient, body: dict[str, Any], _: Answer, confirm: Confirm) -> str:
    return (await rollback.end_pin(client, body, confirm, 0.0))[1]


def _ask_skip(body: Body) -> Question:
    found = _find_skippable(body)
    if not found:
        raise Fault(
            f"{shown('bundles', body)} has no version that could be skipped: what runs, and what "
            "is pinned, isn't"
        )
    return Question(
        "The digest that you choose is never deployed, until it is unskipped. Another digest under "
        "the same tag isn't skipped.",
        hint_about("skip", "bundle", body, "VERSION"),
        [
            Choice(digest, f"Skip {said(version)} ({digest[:19]})")
            for digest, version in list(found.items())[:MOST]
        ],
        seal=_seal(body),
    )


def _find_skippable(body: Body) -> dict[str, str]:
    """Digests that could be skipped, with the newest version that had each."""
    status, found = parse_status(body), dict[str, str]()
    left = {status.deployed.digest, status.part(PinStatus).digest, *rollback.skipped_digests(body)}
    for version, digest in rollback.known_versions(status):
        if digest not in left:
            found.setdefault(digest, version)
    return found


async def _skip(client: KubeClient, body: dict[str, Any], answer: Answer, confirm: Confirm) -> str:
    version, digest = _find_skippable(body)[answer.digest], answer.digest
    named = version if rollback.digest_of(body, version) == digest else digest
    body = await rollback.skip_digest(client, body, version, digest, confirm)
    return rollback.describe_skip(body, named, digest)


def _ask_unskip(body: Body) -> Question:
    skipped = rollback.skipped_digests(body)
    if not skipped:
        raise Fault(f"{shown('bundles', body)} skips nothing")
    known = reversed(rollback.known_versions(parse_status(body)))
    versions = {digest: version for version, digest in known}
    return Question(
        "The digest that you choose can be deployed again, if the spec names its version and the "
        "gates pass.",
        hint_about("unskip", "bundle", body, "VERSION"),
        [
            Choice(digest, f"Unskip {said(versions.get(digest, 'digest'))} ({digest[:19]})")
            for digest in skipped
        ],
        seal=_seal(body),
    )


async def _unskip(
    client: KubeClient, body: dict[str, Any], answer: Answer, confirm: Confirm
) -> str:
    body = await rollback.unskip_digests(client, body, [answer.digest], confirm)
    return rollback.describe_unskipped(body, [answer.digest])


def _ask_hold(body: Body) -> Question:
    if (held := annotations_of(body).get(names.ANN_HOLD)) is not None:
        raise Fault(f"{shown('bundles', body)} is held already: {shown_hold(held)}")
    return Question(
        "The version that it runs isn't promoted until it is unheld. Its soak ends, and restarts "
        "then.",
        f"{hint_about('hold', 'bundle', body)} --reason TEXT",
        longest_reason=MAX_HOLD_TEXT,
        seal=_seal(body),
    )


async def _hold(client: KubeClient, body: dict[str, Any], answer: Answer, confirm: Confirm) -> str:
    if fault := reason_fault(answer.reason, MAX_HOLD_TEXT):
        raise Fault(f"the reason {fault}")
    return (await attest.set_hold(client, body, answer.reason, confirm))[1]


def _ask_unhold(body: Body) -> Question:
    if (held := annotations_of(body).get(names.ANN_HOLD)) is None:
        raise Fault(f"{shown('bundles', body)} isn't held")
    return Question(
        f"What it runs can be promoted again: its soak restarts. It is held: {shown_hold(held)}",
        hint_about("unhold", "bundle", body),
        seal=_seal(body, held),
    )


async def _unhold(client: KubeClient, body: dict[str, Any], _: Answer, confirm: Confirm) -> str:
    return (await attest.set_hold(client, body, None, confirm))[1]


_CHANGES: Final[Mapping[str, _Change]] = {
    "rollback": _Change("Roll back", _ask_rollback, _roll_back),
    "unpin": _Change("Unpin", _ask_unpin, _unpin),
    "skip": _Change("Skip a version", _ask_skip, _skip, " of"),
    "unskip": _Change("Unskip a version", _ask_unskip, _unskip, " of"),
    "hold": _Change("Hold", _ask_hold, _hold),
    "unhold": _Change("Unhold", _ask_unhold, _unhold),
}

_REQUESTS: Final[Mapping[str, Mapping[str, str]]] = {
    "suspend": {
        "rules": "No copy is written or deleted for it until it is resumed.",
        "bundles": "Nothing is deployed for it until it is resumed; its registry is polled.",
    },
    "resume": {
        "rules": "The operator writes and deletes its copies again.",
        "bundles": "The operator deploys for it again.",
    },
    "reconcile": {
        "rules": "The operator retries its failed copies at once.",
        "bundles": "The operator polls its registry, and deploys its version even if that is "
        "deployed already.",
    },
}
"""What can be done to both kinds, and what that means for each."""


def is_verb(verb: str, what: str) -> bool:
    """Whether that can be done to objects of a kind."""
    return verb in _REQUESTS or (what == "bundles" and verb in _CHANGES)


def words_of(verb: str) -> str:
    """A verb, for a button."""
    return _CHANGES[verb].words if verb in _CHANGES else verb.capitalize()


def title_of(verb: str) -> str:
    """A verb, before the object."""
    return words_of(verb) + (_CHANGES[verb].preposition if verb in _CHANGES else "")


def actions_of(
    what: str, body: Body, *, decides: bool = False, promotes: bool = False
) -> Iterator[PageAction]:
    """What can be done to an object now; a decision about a plan comes first.

    ``promotes``: whether others are promoted from it, so that it can be held.
    """
    spec, metadata = body.get("spec"), body["metadata"]
    place = f"{what}/{segment(metadata['namespace'])}/{segment(metadata['name'])}"
    if decides:
        yield PageAction("review", "Review the plan …", f"/do/approve/{place}")
    verbs = ["reconcile"]
    if isinstance(spec, Mapping):  # the old form has no suspend
        verbs.append("resume" if spec.get("suspend") else "suspend")
    if what == "bundles":
        verbs += [verb for verb in _CHANGES if verb != "hold" or promotes]
    for verb in verbs:
        if verb in _REQUESTS or _is_possible(verb, body):
            yield PageAction(verb, f"{words_of(verb)} …", f"/do/{verb}/{place}")


def _is_possible(verb: str, body: Body) -> bool:
    try:
        _CHANGES[verb].ask(body)
    except Fault:
        return False
    return True


def ask(verb: str, what: str, body: Body) -> Question:
    """What is asked before.

    Raises:
        Fault: it can't be done to the object as it is.
    """
    if verb in _CHANGES:
        return _CHANGES[verb].ask(body)
    return Question(_REQUESTS[verb][what], hint_about(verb, SINGULAR[what], body))


async def check_may_change(client: KubeClient, what: str, body: Body) -> None:
    """Refuse where the user lacks the permission that all of it needs.

    Raises:
        Fault: with the permission.
        ApiError: it can't be found out.
    """
    if lacking := await describe_lacking(client, what, body, "patch"):
        about = shown(what, body)
        raise Fault(
            f"you have no permission to change {about}: {lacking}; ask an administrator for it"
        )


async def act(
    client: KubeClient, verb: str, what: str, key: tuple[str, str], answer: Answer
) -> str:
    """Do it to the object as it is now; return a sentence.

    Raises:
        Fault: it can't be done, or the object isn't any more as the question was about it.
        ApiError: the API server refused it.
    """
    body = await one(client, what, *key)
    if verb in _CHANGES:

        def confirm(seen: Body) -> None:
            _check(_CHANGES[verb].ask(seen), seen, answer)

        confirm(body)
        return await _CHANGES[verb].write(client, body, answer, confirm)
    if verb != "reconcile":
        _, done = await set_suspend(client, what, body, value=verb == "suspend")
        return f"{done}."
    rule = what == "rules"
    annotation = names.ANN_RULE_REQUESTED_AT if rule else names.ANN_REQUESTED_AT
    await annotated(client, what, body, annotation)
    return "It is annotated; the operator reconciles it now."


def _check(question: Question, body: Body, answer: Answer) -> None:
    """Refuse an answer to another question than the one that is asked now.

    Raises:
        Fault: the state differs from the one that was shown, or the version can't be chosen now.
    """
    about = shown("bundles", body)
    if answer.seal != question.seal:
        raise Fault(
            f"{about} has changed since it was shown; check what is shown now, and try again"
        )
    if question.choices and answer.digest not in {one.digest for one in question.choices}:
        raise Fault(
            f"{about}: {said(answer.digest[:19])} can't be chosen; choose one that is shown"
        )
