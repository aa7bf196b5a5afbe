"""What a template sees of the objects in ``spec.sources``.

Data of Secrets have two forms. Where they may come out, they are texts that know their origin, for
messages. Everywhere else they are Withheld: every operation on such a value fails, so no template
can print, compare or measure it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn

from copyrator.copies.targets.transform import EVERY_MARK
from copyrator.copies.template.meter import TemplateError

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


class Withheld:
    """A value of a Secret's data where it may not come out; only `reveal` reads it."""

    __slots__ = ("_origin", "_text")

    def __init__(self, text: str, origin: str) -> None:
        self._text = text
        self._origin = origin

    def _refuse(self, *_args: Any) -> NoReturn:
        raise TemplateError(
            f"{self._origin}: data of a Secret can be used only in the data of a Secret, or by "
            "pem_bundle in the data of a ConfigMap"
        )

    __str__ = __repr__ = __format__ = __bool__ = __len__ = __iter__ = __hash__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __getitem__ = _refuse
    __add__ = __radd__ = __mul__ = __rmul__ = __mod__ = __rmod__ = __int__ = __float__ = _refuse
    __html__ = _refuse


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


Entry = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
"""An object, a list of objects, or None for a missing optional one."""


def source_set(
    entries: Mapping[str, Entry], *, clear: bool, optional: Collection[str] = ()
) -> SourceSet:
    """The variable ``sources``."""
    found: dict[str, Any] = {}
    for alias, entry in entries.items():
        if entry is None:
            found[alias] = None
        elif isinstance(entry, Mapping):
            lacks = alias in optional
            found[alias] = template_object(entry, alias, clear=clear, may_lack_keys=lacks)
        else:
            found[alias] = [
                template_object(one, alias, clear=clear, may_lack_keys=True) for one in entry
            ]
    return SourceSet(found)
