"""Texts: of messages, bounded; times and durations; and checks of names, which return the remedy.

Nothing here reads a clock. Sources of the checks: RFC 1123 names, and
``k8s.io/apimachinery/pkg/util/validation``. Always ``fullmatch``: Python's ``$`` accepts a trailing
newline.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Final

# Times and durations -----------------------------------------------------------------------------

_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = re.compile(r"([0-9]+(?:[.][0-9]+)?)(ms|[hms])")
_WHOLE = re.compile(r"(?:[0-9]+(?:[.][0-9]+)?(?:ms|[hms]))+")


def format_time(moment: datetime) -> str:
    """RFC 3339 in UTC with whole seconds, as ``metav1.Time``: ``2026-01-31T12:00:00Z``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(moment: datetime) -> str:
    """The same with microseconds, as ``metav1.MicroTime``: ``2026-01-31T12:00:00.000000Z``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: object) -> datetime | None:
    """The time of an RFC 3339 string, or None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def time_since(stamp: object, now: datetime) -> str:
    """How long ago, in kubectl's format: 45s, 12m, 5h, 3d."""
    moment = parse_time(stamp)
    if moment is None:
        return "-"
    seconds = max(int((now - moment).total_seconds()), 0)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def time_until(stamp: object, now: datetime) -> str:
    """How long until then: ``in 45s``; ``now`` where it is past."""
    moment = parse_time(stamp)
    if moment is None:
        return "-"
    seconds = int((moment - now).total_seconds())
    if seconds <= 0:
        return "now"
    if seconds < 120:
        return f"in {seconds}s"
    return f"in {seconds // 60}m" if seconds < 7200 else f"in {seconds // 3600}h"


def parse_duration(text: str) -> float | None:
    """Seconds in ``30s``, ``5m``, ``1h30m`` or ``1.5h``; None when it isn't a duration."""
    if len(text) > 32 or not _WHOLE.fullmatch(text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def format_duration(seconds: float) -> str:
    """The shortest form: ``1h30m``, ``5m``, ``30s``, ``1.5s``, ``0s``."""
    whole, rest = divmod(max(seconds, 0.0), 60.0)
    hours, minutes = divmod(int(whole), 60)
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else ""]
    if rest or not any(parts):
        parts.append(f"{round(rest, 3):g}s")
    return "".join(parts)


def parse_retry_after(value: object, headers: Mapping[str, str]) -> float | None:
    """Seconds of a Retry-After (RFC 9110): a number, or a date, counted from the answer's own.

    None when it is neither; the result may be negative or infinite, but is a number.
    """
    try:
        seconds = float(value)  # type: ignore[arg-type]
    except (OverflowError, TypeError, ValueError):
        try:
            until = parsedate_to_datetime(str(value))
            seconds = (until - parsedate_to_datetime(headers["Date"])).total_seconds()
        except (KeyError, OverflowError, TypeError, ValueError):
            return None
    return None if math.isnan(seconds) else seconds


# Messages ----------------------------------------------------------------------------------------

NAMED: Final = 2
"""Members that `some` names."""
GROUP: Final = 3
"""Number of members from which the same message is reported once for all."""


def count(number: int, one: str, many: str | None = None) -> str:
    """``1 copy``, ``3 copies``; the words may include the verb: ``1 copy is``, ``3 copies are``."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def times(number: int) -> str:
    """``once``, ``3 times``."""
    return "once" if number == 1 else f"{number} times"


def some(members: Iterable[str], what: str) -> str:
    """``7 namespaces (team-a, team-b, …)``."""
    all_ = sorted(set(members))
    more = ", …" if len(all_) > NAMED else ""
    return f"{len(all_)} {what} ({', '.join(all_[:NAMED])}{more})"


def first_of(texts: Sequence[str], most: int, separator: str = "; ") -> str:
    """The first texts of a list, and how many more there are: ``a; b; and 3 more``."""
    more = f"{separator}and {len(texts) - most} more" if len(texts) > most else ""
    return separator.join(texts[:most]) + more


def truncate(text: str, most: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def one_line(text: str, most: int) -> str:
    """One line of printable characters, truncated; white space is a single blank."""
    plain = "".join(one if one.isprintable() else " " for one in text[: 2 * most])
    return truncate(" ".join(plain.split()), most)


def printable_start(text: str, most: int) -> str:
    """So many characters of a text that another controller wrote, without control characters."""
    start = text[:most] + ("…" if len(text) > most else "")
    return "".join(one if one.isprintable() else " " for one in start)


_UNUSUAL = re.compile(r"[^\n\t -~]")


def printable(text: str) -> str:
    """A text that others wrote, without what moves a terminal's cursor or hides or reorders text.

    Line feeds and tabs stay; other characters that aren't printable are shown as escapes.
    """
    return _UNUSUAL.sub(lambda found: _escaped(found[0]), text)


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape", "replace").decode("ascii")


MOST: Final = 256
"""Characters of a text of the status that are shown; more than an ID or a user's name has."""


def said(value: object, most: int = MOST) -> str:
    """A text of a status, which may be forged, in one line; a dash where there is none."""
    text = str(value) if value not in (None, "") else "-"
    text = printable(text[:most] + ("…" if len(text) > most else ""))
    return text.replace("\n", " ").replace("\t", " ")


@dataclass(frozen=True, slots=True)
class Detail:
    """A part of a description, for a terminal or a page; others' text is escaped by `printable`."""

    label: str
    value: object = ""
    below: Sequence[str] = ()
    """Lines."""

    @property
    def line(self) -> str:
        """``Label:     value``, with the values of all parts aligned."""
        value = printable(str(self.value))
        return f"{self.label + ':':<15}{value}" if value else f"{self.label}:"

    @property
    def lines(self) -> list[str]:
        """For a terminal."""
        return [self.line, *(f"  {printable(one)}" for one in self.below)]

    @property
    def text(self) -> str:
        """For a page: all but the label."""
        return printable("\n".join((str(self.value), *self.below))).strip()


def detail_lines(parts: Iterable[Detail]) -> list[str]:
    """The lines of parts."""
    return [line for part in parts for line in part.lines]


def short_digest(value: object) -> str:
    """The first characters of a digest, enough to distinguish two."""
    text = str(value or "")
    return text.removeprefix("sha256:")[:12] or "-"


# Names, labels and keys --------------------------------------------------------------------------

Check = Callable[[str], str | None]
"""Takes a value, returns its fault and the remedy, or None."""


def quoted(value: str, most: int = 80) -> str:
    """Quote a user's value for a message, shortened."""
    return repr(truncate(value, most))


def matching(pattern: str | re.Pattern[str], fault: str, most: int = 512) -> Check:
    """A check of a whole value of so many characters; the fault follows the quoted value."""
    usable = re.compile(pattern)

    def check(value: str) -> str | None:
        if len(value) <= most and usable.fullmatch(value):
            return None
        return f"{quoted(value)} {fault}"

    return check


def member(key: str) -> str:
    r"""A key behind the path of its map, as kubectl's jsonpath takes it: ``.helm\\.sh/chart``."""
    return "." + key.replace(".", "\\.") if _PLAIN.fullmatch(key) else f"['{key}']"


_PLAIN: Final = re.compile(r"[-./\w]+")


def meant(word: str, known: Iterable[str]) -> str:
    """``; did you mean X?`` with the known word that is alike, else nothing.

    One is part of the other, or they are spelt much alike.
    """
    word = word[:_WORD].lower()
    lower = {one.lower(): one for one in islice(known, _WORDS)}
    part = [one for one in lower if min(len(one), len(word)) > 3 and (one in word or word in one)]
    found = [min(part, key=lambda one: abs(len(one) - len(word)))] if part else []
    found = found or get_close_matches(word, lower, n=1, cutoff=0.65)
    return f"; did you mean {lower[found[0]]}?" if found else ""


_WORD: Final = 64
_WORDS: Final = 200
"""Words that one of so many characters is compared with: at most 40 ms."""


def among(words: Collection[str], fault: str) -> Check:
    """A check that a value is one of some words; the fault follows the quoted value."""
    return lambda value: None if value in words else f"{quoted(value)} {fault}{meant(value, words)}"


def at_most(most: int) -> Check:
    """A check of a value's length."""
    fault = f"must have at most {most} characters"
    return lambda value: None if len(value) <= most else fault


LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN: Final = rf"{LABEL}(\.{LABEL})*"
QUALIFIED: Final = "[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
DATA_KEY_PATTERN: Final = "[-._a-zA-Z0-9]+"
KIND_PATTERN: Final = "[A-Z][A-Za-z0-9]*"
API_VERSION_PATTERN: Final = "([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[a-z0-9]+"

_LABEL = re.compile(LABEL)
_SUBDOMAIN = re.compile(SUBDOMAIN)
_QUALIFIED = re.compile(QUALIFIED)
_DATA_KEY = re.compile(DATA_KEY_PATTERN)
_ENV_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")


def check_namespace(value: str) -> str | None:
    """A namespace's name: an RFC 1123 label."""
    if len(value) <= 63 and _LABEL.fullmatch(value):
        return None
    if "*" in value or "?" in value:
        return f"{quoted(value)} is a pattern; list the namespaces by name"
    return (
        f"{quoted(value)} isn't a valid namespace name; use at most 63 lower-case letters, digits "
        "and '-'"
    )


check_object_name: Final = matching(
    _SUBDOMAIN,
    "isn't a valid object name; use at most 253 lower-case letters, digits, '-' and '.'",
    253,
)
"""An object's name: an RFC 1123 subdomain."""


def check_label_key(value: str) -> str | None:
    """The key of a label or annotation: ``[prefix/]name``."""
    prefix, slash, name = value.rpartition("/")
    if slash and not (len(prefix) <= 253 and _SUBDOMAIN.fullmatch(prefix)):
        return f"{quoted(value)} has a prefix that isn't a DNS name; write it as example.com/name"
    if len(name) <= 63 and _QUALIFIED.fullmatch(name):
        return None
    return (
        f"{quoted(value)} isn't a valid label key; use at most 63 letters, digits, '-', '_' and "
        "'.', beginning and ending with a letter or digit"
    )


def check_label_value(value: str) -> str | None:
    """The value of a label; may be empty."""
    if not value or (len(value) <= 63 and _QUALIFIED.fullmatch(value)):
        return None
    return (
        f"{quoted(value)} isn't a valid label value; use at most 63 letters, digits, '-', '_' and "
        "'.', beginning and ending with a letter or digit"
    )


def check_data_key(value: str) -> str | None:
    """A key of a ConfigMap or Secret."""
    if len(value) <= 253 and _DATA_KEY.fullmatch(value) and value not in (".", ".."):
        return None
    return (
        f"{quoted(value)} isn't a valid key of a ConfigMap or Secret; "
        "use at most 253 letters, digits, '-', '_' and '.'"
    )


check_kind: Final = matching(
    KIND_PATTERN,
    "isn't a valid kind; write it as in a manifest, for example Secret",
    63,
)
check_api_version: Final = matching(
    API_VERSION_PATTERN,
    "isn't a valid apiVersion; write it as v1 or group/v1",
    253,
)


def check_env_name(value: str) -> str | None:
    """A name that Kubernetes accepts for an environment variable, 1.29 included (IsEnvVarName).

    From 1.30 on it accepts nearly all of ASCII, but a Job must be accepted by every version.
    """
    path = value == "." or value.startswith("..")
    if len(value) <= 255 and _ENV_NAME.fullmatch(value) and not path:
        return None
    return (
        f"{quoted(value)} isn't a valid name for an environment variable; "
        "use letters, digits, '_', '-' and '.', not beginning with a digit or '..'"
    )
