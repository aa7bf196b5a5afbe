"""Freezes: while one is in force no deploy begins, in a namespace or in all of them. Pure.

A namespace is frozen by its annotation ``operator.werf.dev/freeze``, all namespaces by the
ConfigMap ``copyrator-freeze`` in the operator's namespace. The annotation is JSON with the fields
of ``_Fields``, or plain text: the reason. The ConfigMap has these fields as keys. Whatever can't be
read freezes too: somebody wanted to stop deploys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from copyrator.api.names import ANN_FREEZE
from copyrator.api.text import format_time, one_line, parse_time

FREEZE_BYTES: Final = 4 * 1024
"""Bytes of a Namespace's annotation operator.werf.dev/freeze, and of the data of the ConfigMap
copyrator-freeze; a longer one freezes, and isn't read."""

CONFIG_MAP: Final = "copyrator-freeze"
"""Its name; it is in the operator's namespace."""
MAX_REASON: Final = 512
"""Characters of a reason."""
MAX_WHO: Final = 256
"""Characters of a user's name."""
_MAX_FAULT: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """One freeze."""

    namespace: str = ""
    """Empty: of all namespaces."""
    reason: str = ""
    until: datetime | None = None
    """When it ends by itself; None where somebody has to end it."""
    who: str = ""
    """The user who froze, as stated in the request: not verified."""
    since: datetime | None = None
    fault: str = ""
    """What can't be read, why, and the remedy; then nothing else is known."""

    @property
    def where(self) -> str:
        """What is frozen."""
        return f"namespace {self.namespace}" if self.namespace else "all namespaces"

    def is_over(self, now: datetime) -> bool:
        """Whether its end has passed."""
        return self.until is not None and self.until <= now


class _Fields(msgspec.Struct, forbid_unknown_fields=True):
    reason: str = ""
    until: str | None = None
    who: str = ""
    since: str | None = None


@dataclass(frozen=True, slots=True)
class FreezeFindings:
    """What the gate of freezes judges by."""

    freezes: tuple[Freeze, ...] = ()
    """Those that are in force for the Bundle."""


def read_annotation(namespace: str, value: str) -> Freeze:
    """The freeze of a namespace, from its annotation; any value freezes."""
    source = _Source(f"its annotation {ANN_FREEZE}", namespace)
    if len(value.encode(errors="replace")) > FREEZE_BYTES:
        return source.unreadable(_TOO_LONG)
    if not value.lstrip().startswith("{"):
        return Freeze(namespace=namespace, reason=one_line(value, MAX_REASON))
    try:
        fields = msgspec.json.decode(value, type=_Fields)
    except (ValueError, RecursionError) as error:
        return source.unreadable(str(error))
    return _freeze(source, fields)


def read_config_map(body: Mapping[str, Any]) -> Freeze:
    """The freeze of all namespaces, from its ConfigMap; an empty one freezes too."""
    metadata = body.get("metadata") or {}
    source = _Source(f"ConfigMap {metadata.get('namespace')}/{CONFIG_MAP}")
    data = {**(body.get("data") or {}), **(body.get("binaryData") or {})}
    if sum(len(key) + len(str(value)) for key, value in data.items()) > FREEZE_BYTES:
        return source.unreadable(_TOO_LONG)
    try:
        fields = msgspec.convert(data, type=_Fields)
    except (ValueError, RecursionError) as error:
        return source.unreadable(str(error))
    return _freeze(source, fields)


def annotation_of(freeze: Freeze) -> str:
    """The annotation's value for a freeze."""
    return msgspec.json.encode(data_of(freeze)).decode()


def data_of(freeze: Freeze) -> dict[str, str]:
    """The ConfigMap's data for a freeze; only what is known."""
    found = {
        "reason": freeze.reason,
        "until": format_time(freeze.until) if freeze.until else "",
        "who": freeze.who,
        "since": format_time(freeze.since) if freeze.since else "",
    }
    return {key: value for key, value in found.items() if value}


def denied(message: str) -> Freeze:
    """A freeze of all namespaces because the operator may not read what is frozen."""
    return Freeze(fault=f"the operator may not read what is frozen: {message}")


def sentence(freeze: Freeze) -> str:
    """A freeze as a sentence: what is frozen, by whom, why, and until when.

    Nothing in it changes by itself.
    """
    verb = "is" if freeze.namespace else "are"
    if freeze.fault:
        return f"{freeze.where} {verb} frozen because {freeze.fault}"
    by = f" by {freeze.who}" if freeze.who else ""
    since = f" since {format_time(freeze.since)}" if freeze.since else ""
    until = f" until {format_time(freeze.until)}" if freeze.until else ""
    return (
        f"{freeze.where} {verb} frozen{by}{since}{until}: {freeze.reason or 'no reason is given'}"
    )


def in_force(freezes: Iterable[Freeze], now: datetime) -> tuple[Freeze, ...]:
    """Those that haven't ended."""
    return tuple(one for one in freezes if not one.is_over(now))


_TOO_LONG: Final = f"it is longer than {FREEZE_BYTES} bytes"


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a freeze was read."""

    name: str
    namespace: str = ""

    def unreadable(self, why: str) -> Freeze:
        scope = f"-n {self.namespace}" if self.namespace else "--all"
        text = (
            f"{self.name} can't be read: {one_line(why, _MAX_FAULT)}; correct it, or remove it: "
            f"copyrator thaw {scope}"
        )
        return Freeze(namespace=self.namespace, fault=text)


def _freeze(source: _Source, fields: _Fields) -> Freeze:
    until = parse_time(fields.until)
    if fields.until and until is None:
        return source.unreadable(f"until: {one_line(fields.until, 40)!r} isn't an RFC 3339 time")
    return Freeze(
        namespace=source.namespace,
        reason=one_line(fields.reason, MAX_REASON),
        until=until,
        who=one_line(fields.who, MAX_WHO),
        since=parse_time(fields.since),
    )
