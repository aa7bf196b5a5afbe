"""What a text of a template is rendered with: what it sees of ``spec.sources``, and its meter.

Data of Secrets have two forms. Where they may come out, they are texts that know their origin, for
messages. Everywhere else they are Withheld: every operation on such a value fails, so no template
can print, compare or measure it.

The meter bounds the rendering of one object by counts, not by time: the limits of a template are
the same on every machine. A step is an operation, an iteration of a loop for each node in its body,
or 64 characters that are processed.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import (
    Callable,
    Collection,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    Sequence,
    Sized,
    ValuesView,
)
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NoReturn

from copyrator.api.rule_spec import (
    PUBLIC_CA,
    PUBLIC_CAS,
    RENDERED_OBJECT,
    RENDERED_TEXT,
    RULE_DEPTH,
)
from copyrator.api.text import count
from copyrator.copies.targets.marks import EVERY_MARK
from copyrator.copies.template.keystores import Certificates

RENDER_STEPS: Final = 40_000
"""Steps that one object's rendering may take: an operation, a pass of a loop for each operation in
its body, or 64 characters processed. Measured: a step takes 0.2 to 1.2 us, so an object takes less
than the 50 ms of a step; 256 KiB of nothing but {{ namespace.name }} take 26,000 steps."""

TEMPLATE_NUMBER_BITS: Final = 4_096
"""Binary digits of a number that a template calculates: a 64-bit number has 64."""

CHARACTERS: Final = 64
"""Characters that are processed in one step."""

_PARTED: Final = (list, tuple, set, frozenset, KeysView, ValuesView, ItemsView)
_OTHER: Final = 64
"""Length of a value that is written as its type's name and address."""


class TemplateError(Exception):
    """A template couldn't be rendered for a target; the message is for its author."""


class ObjectLimitError(TemplateError):
    """All texts of one object together take too much, whichever of them was rendered last."""


def is_jinja(text: str) -> bool:
    """Whether a text may contain Jinja2; a quick check."""
    return "{" in text


@dataclass(slots=True)
class Findings:
    """What rendering from sources found out, beside the result."""

    overridden: dict[tuple[str, str, str], None] = field(default_factory=dict)
    """Registry, the source that isn't used, the one that is."""
    passed_over: dict[tuple[str, str], None] = field(default_factory=dict)
    """A source of which nothing is used, and why."""
    until: datetime | None = None
    """When the result changes although no source does: a certificate's end."""

    def pass_over(self, origin: str, why: str) -> None:
        """Note that nothing of a source, or of a key of it, is used."""
        source, _, key = origin.removeprefix("source ").partition(", key ")
        self.passed_over[source, f"{key} {why}" if key else why] = None


class Visibility(enum.Enum):
    """What may come out at a place of an object."""

    HIDDEN = "hidden"
    """No data of Secrets."""
    BUNDLES = "bundles"
    """Of Secrets, certificates only, and a password as the key of a trust store."""
    CLEAR = "clear"
    """Everything: data of Secrets are texts here, so no message may quote a value."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The place of a text in an object that is rendered from sources."""

    now: datetime
    findings: Findings
    visibility: Visibility


class Meter:
    """Counts down; one for each object that is rendered."""

    __slots__ = ("_room", "left", "scope", "whole")

    def __init__(self) -> None:
        self.left = RENDER_STEPS
        """Steps that may still be taken."""
        self._room = RENDERED_OBJECT
        self.scope: Scope | None = None
        """Of the text that is rendered; None in an object without sources."""
        self.whole: bool | int | float | None = None
        """What the text that was rendered last consists of, if that is a number or boolean."""

    @property
    def reveals(self) -> bool:
        """Whether values are secret, so that no message may quote one."""
        return self.scope is not None and self.scope.visibility is Visibility.CLEAR

    @property
    def findings(self) -> Findings:
        """Where to note them; without sources nobody reads them."""
        return self.scope.findings if self.scope is not None else Findings()

    def take(self, steps: int, characters: int = 0) -> None:
        """Count work before it is done.

        Raises:
            ObjectLimitError: it is too much.
        """
        self.left -= abs(steps) + abs(characters) // CHARACTERS
        if self.left < 0:
            raise ObjectLimitError(
                f"rendering takes more than {RENDER_STEPS} steps; shorten its loops and texts"
            )

    def make(self, characters: int) -> None:
        """Count a text before it is made.

        Raises:
            TemplateError: it is too long.
        """
        if characters > RENDERED_TEXT:
            raise TemplateError(f"a string would be longer than {RENDERED_TEXT} characters")
        self.take(1, characters)

    def put_out(self, text: str) -> None:
        """Count a text of the finished object.

        Raises:
            ObjectLimitError: the object is too large.
        """
        self._room -= len(text)
        if self._room < 0:
            raise ObjectLimitError(
                f"the object's strings would be longer than {RENDERED_OBJECT} characters in total"
            )

    def weigh(self, value: Any) -> int:
        """Count a value with all its parts as read, and return its length.

        Raises:
            TemplateError: it is too large, or nested too deeply.
        """
        if type(value) is str:
            self.take(1, len(value))
            return len(value)
        level, length = [value], 0
        for _ in range(RULE_DEPTH):
            parts: list[Any] = []
            for one in level:
                length += self._length(one, parts)
            if not parts:
                self.take(1, 4 * length)  # quotes and escapes, where it is written as text
                return length
            level = parts
        raise TemplateError(f"a value is nested more than {RULE_DEPTH} levels deep")

    def _length(self, value: Any, parts: list[Any]) -> int:
        """Characters of a value without its parts, which are added to `parts`."""
        if isinstance(value, str):
            return len(value)
        if isinstance(value, int):
            return value.bit_length() // 3 + 1
        if isinstance(value, Mapping):
            self.take(2 * len(value))
            parts += value.keys()
            parts += value.values()
            return 6 * len(value)
        if isinstance(value, _PARTED):
            self.take(len(value))
            parts += value
            return 4 * len(value)
        if isinstance(value, range):
            self.take(len(value) // 8)
        return _OTHER

    def items(self, values: Iterable[Any]) -> list[Any]:
        """All items of an iterable, each counted before the next one is made."""
        found = []
        for value in values:
            self.take(1)
            found.append(value)
        return found

    def loop(self, values: Iterable[Any], steps: int, characters: int) -> Iterator[Any]:
        """An iterable each of whose items costs as much as the loop's body."""
        for value in values:
            self.take(steps, characters)
            yield value

    def search(self, text: str, part: Any) -> None:
        """Count a search in a text; in short texts Python may compare every pair of characters."""
        length = len(text)
        other = len(part) if isinstance(part, str) else 1
        self.take(1, length * 8 if length >= 30_000 else length + length * other // 8)


def checked(value: Any) -> Any:
    """A result of a calculation.

    Raises:
        TemplateError: a number with too many digits.
    """
    if isinstance(value, int) and value.bit_length() > TEMPLATE_NUMBER_BITS:
        raise TemplateError("a number has too many digits")
    return value


def count_of(value: Any) -> int:
    """How many items or characters a value has; 0 where it has none."""
    return len(value) if isinstance(value, Sized) else 0


_DATA: Final = ("data", "binaryData")
"""Fields whose values know their origin."""
Form = Callable[[str, str], Any]
"""Makes what a template sees of a value, from that and its origin."""
_LEFT_OUT: Final = frozenset({"metadata", "status"})


class SourceText(str):
    """A value of a source's data."""

    __slots__ = ("_origin",)

    _origin: str

    @classmethod
    def of(cls, text: str, origin: str) -> SourceText:
        """A text with its origin: ``source hub (infra/hub-creds), key ca.crt``."""
        made = cls(text)
        made._origin = origin
        return made


class Closed:
    """A value on which every operation of a template fails."""

    __slots__ = ()

    _why: str

    def _refuse(self, *_args: Any) -> NoReturn:
        raise TemplateError(self._why)

    __str__ = __repr__ = __format__ = __bool__ = __len__ = __iter__ = __hash__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __getitem__ = _refuse
    __add__ = __radd__ = __mul__ = __rmul__ = __mod__ = __rmod__ = __int__ = __float__ = _refuse
    __html__ = _refuse


class Withheld(Closed):
    """A value of a Secret's data where it may not come out; only `reveal` reads it."""

    __slots__ = ("_origin", "_text", "_why")

    def __init__(self, text: str, origin: str) -> None:
        self._text = text
        self._origin = origin
        self._why = (
            f"{origin}: data of a Secret can be used only in the data of a Secret, or by "
            "pem_bundle, jks and pkcs12 in a ConfigMap"
        )


class Binary(Closed):
    """Bytes, which only b64encode takes."""

    __slots__ = ("_content",)

    _why = (
        "a trust store isn't text: add the filter b64encode, in data of a Secret or binaryData of "
        "a ConfigMap"
    )

    def __init__(self, content: bytes) -> None:
        self._content = content


class PublicCAs(Closed):
    """The certificates of an entry with ``defaultCAs``."""

    __slots__ = ("_certificates", "_digest")

    _why = "the public CAs are no object: use pem_bundle, jks or pkcs12"

    def __init__(self, certificates: Certificates) -> None:
        self._certificates = certificates
        self._digest = hashlib.sha256(b"".join(certificates)).hexdigest()


class SourceData(Mapping[str, Any]):
    """The data of a source: each value is converted when it is read, since there may be many.

    Not a dict, whose own methods would return the values as they are.
    """

    __slots__ = ("_form", "_values", "_where")

    def __init__(self, values: Mapping[str, Any], where: str, form: Form) -> None:
        self._values = values
        self._where = where
        self._form = form

    def __getitem__(self, key: str) -> Any:
        value = self._values[key]
        return self._form(str(value), f"{self._where}, key {key}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(dict(self))


class SourceObject(dict[str, Any]):
    """One object."""

    __slots__ = ("_alias", "may_lack_keys")

    _alias: str
    may_lack_keys: bool
    """Whether filters pass over it if it lacks a key: one of several, or optional."""


class SourceSet:
    """The variable ``sources``: not a map, so that any name can be an entry's."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[str, Any]) -> None:
        self._entries = entries

    def __getitem__(self, name: str) -> Any:
        return self._entries[name]

    @property
    def _names(self) -> Sequence[str]:
        return tuple(self._entries)

    def _refuse(self, *_args: Any) -> NoReturn:
        raise TemplateError("name one of the sources: sources.NAME")

    __str__ = __repr__ = __format__ = __bool__ = __iter__ = _refuse


def origin_of(value: Any) -> str:
    """Where a value comes from, for messages; never the value."""
    if isinstance(value, SourceText | Withheld):
        return value._origin
    if isinstance(value, PublicCAs):
        return PUBLIC_CAS
    if isinstance(value, SourceObject):
        metadata = value["metadata"]
        return f"source {value._alias} ({metadata['namespace']}/{metadata['name']})"
    return "a value"


def names_of(sources: Any) -> Sequence[str]:
    """The names of all entries."""
    return sources._names if isinstance(sources, SourceSet) else ()


def reveal(value: Any) -> Any:
    """The text of a withheld value; for functions that return what may come out."""
    return value._text if isinstance(value, Withheld) else value


def content_of(value: Binary) -> bytes:
    """Its bytes."""
    return value._content


def certificates_of(value: PublicCAs) -> Certificates:
    """The public CAs."""
    return value._certificates


def digest_of(value: PublicCAs) -> str:
    """What is equal for the same certificates in the same order."""
    return value._digest


def describe_cas(value: PublicCAs) -> str:
    """``144 public CAs, sha256:018e13f0``."""
    return f"{count(len(value._certificates), PUBLIC_CA)}, sha256:{value._digest[:8]}"


def withheld_like(value: Any, text: str) -> Any:
    """A text made from a value: in the same form, with the same origin."""
    if isinstance(value, Withheld):
        return Withheld(text, value._origin)
    return SourceText.of(text, value._origin) if isinstance(value, SourceText) else text


def template_object(
    body: Mapping[str, Any], alias: str, *, clear: bool, may_lack_keys: bool = False
) -> SourceObject:
    """An object as a template sees it: without status and others' marks.

    ``clear``: whether data of Secrets can be read.
    """
    metadata = body["metadata"]
    made = SourceObject()
    made._alias = alias
    made.may_lack_keys = may_lack_keys
    for name, value in body.items():
        if name not in _LEFT_OUT:
            made[name] = value
    made["metadata"] = {
        "name": str(metadata["name"]),
        "namespace": str(metadata["namespace"]),
        "labels": _own(metadata.get("labels")),
        "annotations": _own(metadata.get("annotations")),
    }
    secret = body.get("kind") == "Secret"
    for name in _DATA:
        if not (isinstance(made.get(name), Mapping) or (secret and name == "data")):
            continue
        where = origin_of(made)
        form = Withheld if secret and not clear else SourceText.of
        made[name] = SourceData(made.get(name) or {}, where, form)
    return made


def _own(found: Mapping[str, str] | None) -> dict[str, str]:
    """Without what may hold the object's data in clear (kubectl's annotation), and tools' marks."""
    return {key: value for key, value in (found or {}).items() if not EVERY_MARK.has(key)}


Entry = Mapping[str, Any] | Sequence[Mapping[str, Any]] | PublicCAs | None
"""An object, a list of objects, or None for a missing optional one."""


def source_set(
    entries: Mapping[str, Entry], *, clear: bool, optional: Collection[str] = ()
) -> SourceSet:
    """The variable ``sources``."""
    found: dict[str, Any] = {}
    for alias, entry in entries.items():
        if entry is None or isinstance(entry, PublicCAs):
            found[alias] = entry
        elif isinstance(entry, Mapping):
            lacks = alias in optional
            found[alias] = template_object(entry, alias, clear=clear, may_lack_keys=lacks)
        else:
            found[alias] = [
                template_object(one, alias, clear=clear, may_lack_keys=True) for one in entry
            ]
    return SourceSet(found)
