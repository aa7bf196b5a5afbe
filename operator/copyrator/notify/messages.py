"""The text of a message, of one transition or of many. Pure.

Tenants, registries and charts write parts of it. Their texts are cut, and can neither mention
people or channels nor form links or markup in any of the services.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from copyrator.api.reasons import Severity
from copyrator.api.reasons.notices import About
from copyrator.api.text import count, one_line
from copyrator.notify.config import Config, SubjectKind
from copyrator.notify.transitions import Transition

MESSAGE_WHY: Final = 300
"""Characters of others' text for one object in a notification."""

MESSAGE_LISTED: Final = 100
"""Transitions that the JSON of one notification lists; their number is always there."""

_MAX_WHAT: Final = 300
_MAX_COMMAND: Final = 300
_FEW: Final = 3
"""Transitions of a kind up to which each has a paragraph."""
_NAMED: Final = 10
"""Objects that a line about many names."""
_WORST: Final = (Severity.FAILURE, Severity.WARNING, Severity.SUCCESS, Severity.INFO)

_LISTED: Final = {SubjectKind.BUNDLE: "bundles", SubjectKind.RULE: "rules"}

_BREAK: Final = "\N{ZERO WIDTH SPACE}"
"""After it an @ mentions nobody, and a URL or a domain is no link."""
_REPLACED: Final = str.maketrans(
    {
        "<": "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}",
        ">": "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}",
        "[": "(",
        "]": ")",
        "`": "'",
        "*": "\N{ASTERISK OPERATOR}",
        "~": "\N{TILDE OPERATOR}",
        "|": "\N{BROKEN BAR}",
        "\\": "/",
        "@": f"@{_BREAK}",
        "#": f"#{_BREAK}",
        "&": "+",
    }
)
_URL: Final = re.compile(r"(?i)(:)(//)|\b(www|mailto|tel|javascript)([.:])")
_DOMAIN: Final = re.compile(r"(?<=[\w-])\.(?=[^\W\d_])")
"""A dot that makes a domain of two words: services make links of these, too."""
_SAFE_COMMAND: Final = re.compile(r"[A-Za-z0-9 ./_:=-]*")


def clean(text: str, most: int) -> str:
    """Others' text as one line without markup, mentions and links, of about so many characters."""
    line = one_line(text, most).translate(_REPLACED)
    line = _URL.sub(lambda found: _BREAK.join(part for part in found.groups() if part), line)
    return _DOMAIN.sub(f".{_BREAK}", line)


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent to one receiver; only plain types, as it goes to a child process."""

    title: str
    text: str
    severity: str
    id: str
    """The same for the same transitions, so that a receiver recognises a repetition."""
    subject: str
    """``Bundle/prod/shop``; empty of several objects."""
    data: dict[str, Any]
    """Of the CloudEvent."""


def build_message(
    config: Config, transitions: Sequence[Transition], *, brief: bool = False
) -> Message:
    """One message about some transitions, at least one, in the order in which they happened.

    ``brief``: only names and what it is about, for a receiver that refuses others' text.
    """
    groups: dict[tuple[About, bool], list[Transition]] = {}
    for one in transitions:
        groups.setdefault((one.about, one.resolved), []).append(one)
    few = 0 if brief else _FEW
    parts = [_paragraph(config, about, some, few) for (about, _), some in groups.items()]
    if brief:
        parts.append("The details are left out, as the receiver refused them.")
    severity = next(
        one for one in _WORST if any(found.severity is one for found in transitions)
    ).value
    subjects = {one.subject.place for one in transitions}
    title = _title(transitions)
    subject = "/".join(transitions[0].subject.place) if len(subjects) == 1 else ""
    text = "\n\n".join(parts)
    data = {
        "title": title,
        "text": text,
        "severity": severity,
        "count": len(transitions),
        "transitions": [_fields(config, one, brief) for one in transitions[:MESSAGE_LISTED]],
    }
    return Message(title, text, severity, _id(transitions), subject, data)


def test_message(name: str, at: str) -> Message:
    """What ``copyrator notify test`` has sent."""
    text = f"This is a test of the entry {name} of Copyrator's notifications, asked for at {at}."
    title = "Copyrator: test"
    data = {"title": title, "text": text, "severity": "info", "count": 0, "transitions": []}
    identity = hashlib.sha256(f"{name} {at}".encode()).hexdigest()[:32]
    return Message(title, text, Severity.INFO.value, identity, "", data)


def _id(transitions: Iterable[Transition]) -> str:
    found = sorted(f"{one.id} {one.resolved}" for one in transitions)
    return hashlib.sha256("\n".join(found).encode()).hexdigest()[:32]


def _title(transitions: Sequence[Transition]) -> str:
    first = transitions[0]
    if len(transitions) == 1:
        resolved = "resolved: " if first.resolved else ""
        return f"Copyrator: {resolved}{first.about} {_named(first)}"
    abouts = list(dict.fromkeys(str(one.about) for one in transitions))
    more = ", …" if len(abouts) > _FEW else ""
    return f"Copyrator: {len(transitions)} messages ({', '.join(abouts[:_FEW])}{more})"


def _named(one: Transition) -> str:
    return f"{one.subject.namespace}/{_DOMAIN.sub(f'.{_BREAK}', one.subject.name)}"


def _paragraph(config: Config, about: About, some: Sequence[Transition], few: int) -> str:
    if len(some) <= few:
        return "\n\n".join(_sentences(config, one) for one in some)
    names = list(dict.fromkeys(_named(one) for one in some))
    rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    kinds = {one.subject.kind for one in some}
    noun = next(iter(kinds)) if len(kinds) == 1 else "object"
    what = f"{'resolved: ' if some[0].resolved else ''}{about}"
    text = f"{count(len(names), noun)}: {what}: {', '.join(names[:_NAMED])}{rest}"
    lists = [f"copyrator get {_LISTED[kind]} -A" for kind in sorted(kinds)]
    return "\n".join([text, *([] if some[0].resolved else lists)])


def _sentences(config: Config, one: Transition) -> str:
    subject = one.subject
    name = _DOMAIN.sub(f".{_BREAK}", subject.name)
    where = f"{subject.kind} {name} in {subject.namespace}"
    if one.resolved:
        text = f"{where}: {one.about} is resolved{f', {one.what}' if one.what else ''}"
    else:
        text = f"{where} {clean(one.what, _MAX_WHAT)}"
    why = clean(one.why, MESSAGE_WHY)
    text += f": {why}" if why else ""
    # A command with a name like example.com is left out: it would be a link.
    command = command_of(one) if name == subject.name else ""
    lines = [text, command, config.link_to(*subject.place)]
    return "\n".join(line for line in lines if line)


def command_of(one: Transition) -> str:
    """The command, unless a status has put characters into it that a shell interprets."""
    usable = len(one.command) <= _MAX_COMMAND and _SAFE_COMMAND.fullmatch(one.command)
    return one.command if usable else ""


def _fields(config: Config, one: Transition, brief: bool) -> dict[str, Any]:
    subject = one.subject
    found = {
        "id": one.id,
        "kind": str(subject.kind),
        "namespace": subject.namespace,
        "name": subject.name,
        "about": str(one.about),
        "severity": str(one.severity),
        "since": clean(one.at, 40),
        "what": "" if brief else clean(one.what, _MAX_WHAT),
        "why": "" if brief else clean(one.why, MESSAGE_WHY),
        "command": command_of(one),
        "link": config.link_to(*subject.place),
    }
    return {name: value for name, value in found.items() if value} | {"resolved": one.resolved}
