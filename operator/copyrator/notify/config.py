"""The ConfigMap ``copyrator-notifications``: who is told about what. Pure.

It is in the operator's namespace, as are the Secrets that it names. Key ``notifications.yaml``::

    link: https://copyrator.example.com/{kind}/{namespace}/{name}
    entries:
      - name: team-chat
        urlFrom: {secretName: chat, key: url}
        about: [AwaitingApproval, DeployFailed]
        namespaces: ["prod-*"]
        kinds: [Bundle]
        minInterval: 1m

An entry with a fault is left out, and the others are used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final
from urllib.parse import quote

import yaml

from copyrator.api.reasons.notices import About
from copyrator.api.schema import (
    Fields,
    Form,
    SpecError,
    Takes,
    below,
    closed,
    custom,
    duration,
    fail,
    items,
    reader,
    text,
)
from copyrator.api.selectors import MAX_GLOBS, NO_GLOBS, Globs, globs
from copyrator.api.text import among, at_most, meant, truncate

NOTIFICATIONS_BYTES: Final = 64 * 1024
"""Characters of the ConfigMap's notifications.yaml."""

NOTIFICATION_ENTRIES: Final = 50
"""Entries of it."""

NOTIFICATION_INTERVAL: Final = 10.0
"""Seconds between two messages of an entry without minInterval: so one flapping object, or a
tenant that forges its status, is at most six messages a minute."""

CONFIG_MAP: Final = "copyrator-notifications"
KEY: Final = "notifications.yaml"
_MAX_NAME: Final = 63
_MAX_LINK: Final = 1024
_MAX_FAULT: Final = 400
_PLACES: Final = ("kind", "namespace", "name")
_WHOLE: Final = frozenset({"link", "entries"})


class SubjectKind(StrEnum):
    """The kinds that notifications are about."""

    BUNDLE = "Bundle"
    RULE = "CopyratorRule"


def _check_name(value: str) -> str | None:
    if len(value) > 253 or not all(c.isascii() and (c.isalnum() or c in "-._") for c in value):
        return "must be a name of letters, digits, '-', '.' and '_'"
    return None


def _check_entry_name(value: str) -> str | None:
    if len(value) > _MAX_NAME:
        return f"must be a name of at most {_MAX_NAME} characters"
    return _check_name(value)


def _or_all(kind: type[StrEnum]) -> Takes:
    """A list of its words; an empty one means all of them."""
    check = among(list(kind), f"isn't one of {', '.join(kind)}")
    read_words = reader(tuple[Annotated[str, text(check, most=64)], ...], items(1000))
    return custom(lambda raw: frozenset(map(kind, read_words(raw) or kind)))


_NAME: Final = text(_check_name, most=253)


class SecretRef(Form):
    """A key of a Secret in the operator's namespace."""

    secret_name: Annotated[str, _NAME]
    key: Annotated[str, _NAME]


class Entry(Form):
    """One receiver."""

    name: Annotated[str, text(_check_entry_name, most=_MAX_NAME)]
    url_from: Annotated[SecretRef, Takes({}, required="is required: secretName and key")]
    about: Annotated[frozenset[About], _or_all(About)] = frozenset(About)
    namespaces: Annotated[
        Globs, globs("", at_most(_MAX_NAME), items(MAX_GLOBS, noun="patterns"), length=_MAX_NAME)
    ] = NO_GLOBS
    """Empty: all of them."""
    kinds: Annotated[frozenset[SubjectKind], _or_all(SubjectKind)] = frozenset(SubjectKind)
    min_interval: Annotated[float, duration("minInterval")] = NOTIFICATION_INTERVAL
    """Seconds between two messages."""
    sign_with: SecretRef | None = None
    """The key of the HMAC of a CloudEvent."""

    @property
    def filter_id(self) -> str:
        """Another one where another selection of transitions is asked for."""
        parts = [sorted(self.about), self.namespaces.patterns, sorted(self.kinds)]
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]

    def wants(self, about: About, kind: SubjectKind, namespace: str) -> bool:
        """Whether it is told about this."""
        return (
            about in self.about
            and kind in self.kinds
            and (not self.namespaces or self.namespaces.matches(namespace))
        )


@dataclass(frozen=True, slots=True)
class Config:
    """The whole ConfigMap."""

    entries: tuple[Entry, ...] = ()
    link: str = ""
    faults: tuple[str, ...] = ()
    """What of it isn't used, as sentences with the field's path and a remedy."""

    def entry(self, name: str) -> Entry | None:
        """The entry of a name."""
        return next((one for one in self.entries if one.name == name), None)

    def link_to(self, kind: SubjectKind, namespace: str, name: str) -> str:
        """The link to an object; empty without a template."""
        link = self.link
        for place, value in zip(_PLACES, (kind, namespace, name), strict=True):
            link = link.replace("{" + place + "}", quote(value, safe=""))
        return link


NO_CONFIG: Final = Config()
_read_entry: Final = reader(Entry, closed(Entry, "an entry"))


def read_config(data: object) -> Config:
    """Parse the ConfigMap's data; never raises. YAML of the greatest length takes 1 s: in a thread.

    None: there is no ConfigMap.
    """
    if data is None:
        return NO_CONFIG
    try:
        return _read(Fields(_load(data), KEY))
    except SpecError as error:
        return Config(faults=(_fault(error),))


def _load(data: object) -> Any:
    written = data.get(KEY) if isinstance(data, Mapping) else None
    if not isinstance(written, str):
        raise SpecError(
            KEY, "is missing from the ConfigMap's data; add it, or delete the ConfigMap"
        )
    if len(written) > NOTIFICATIONS_BYTES:
        raise SpecError(KEY, f"has over {NOTIFICATIONS_BYTES:,} characters; shorten it")
    try:
        return yaml.safe_load(written)
    except Exception as error:  # PyYAML's, and a ValueError or RecursionError for some scalars
        where = getattr(error, "problem_mark", None)
        line = f" in line {where.line + 1}" if where is not None else ""
        raise SpecError(KEY, f"isn't valid YAML{line}; correct it") from None


def _read(whole: Fields) -> Config:
    faults = [
        f"{whole.at(truncate(name, 64))}: is unknown; notifications have link and entries"
        f"{meant(name, _WHOLE)}"
        for name in sorted(map(str, whole.raw.keys() - _WHOLE))[:3]
    ]
    link = ""
    try:
        link = whole.text("link", _check_link) or ""
    except SpecError as error:
        faults.append(_fault(error))
    items = whole.items("entries")
    if len(items) > NOTIFICATION_ENTRIES:
        faults.append(
            f"{whole.at('entries')}: has {len(items)} items; those after the first "
            f"{NOTIFICATION_ENTRIES} aren't used"
        )
    entries: dict[str, Entry] = {}
    for i, item in enumerate(items[:NOTIFICATION_ENTRIES]):
        try:
            entry: Entry = _read_entry(item)
            if entry.name in entries:
                fail("name", f"{entry.name} is taken by another entry; rename it")
            entries[entry.name] = entry
        except SpecError as error:
            faults.append(_fault(below(error, f"{KEY}.entries[{i}]")))
    return Config(tuple(entries.values()), link, tuple(faults))


def _check_link(value: str) -> str | None:
    plain = value
    for place in _PLACES:
        plain = plain.replace("{" + place + "}", "")
    if not value.startswith(("https://", "http://")):
        return "must begin with https:// or http://"
    if len(value) > _MAX_LINK or "{" in plain or "}" in plain:
        return f"takes only {{kind}}, {{namespace}} and {{name}}, and {_MAX_LINK} characters"
    if not plain.isascii() or not plain.isprintable() or set(plain) & set(" <>\"'`|()[]"):
        return "must be a URL without blanks, quotes and brackets"
    return None


def _fault(error: SpecError) -> str:
    return truncate(str(error), _MAX_FAULT)
