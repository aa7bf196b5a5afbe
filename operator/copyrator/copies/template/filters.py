"""The filters of our own that templates have, for the contents of sources.

A filter counts its work before it does it, and its error names the source and key, never a value.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
import yaml
from jinja2.runtime import Undefined

from copyrator.api.json_text import UnreadableJsonError, read_json
from copyrator.copies.template.docker_config import merged_config
from copyrator.copies.template.meter import Meter, TemplateError
from copyrator.copies.template.values import Withheld, origin_of, reveal, withheld_like

_DUMPER: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_YAML_CHARACTERS: Final = 12 if hasattr(yaml, "CSafeDumper") else 200
"""Price of a character that is written as YAML: 0.04 us with libyaml, 2.6 us without."""
_YAML_STEPS: Final = 20
"""Steps for each value that is written as YAML: 12 us with libyaml."""

_NUMBER: Final = re.compile(r"[+-]?\d{1,18}(\.\d{1,18})?", re.ASCII)
_BOOLEANS: Final = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}

Filter = Callable[..., Any]
"""Takes the meter, the value and the arguments."""


def b64decode(meter: Meter, value: Any) -> Any:
    """The text in base64, such as a value of a Secret's data; a withheld one stays withheld."""
    if value is None:
        return None
    text = _text(reveal(value), value, "b64decode")
    meter.make(2 * len(text))
    try:
        found = base64.b64decode("".join(text.split()).encode("ascii"), validate=True).decode()
    except (UnicodeEncodeError, binascii.Error):
        raise TemplateError(f"{origin_of(value)} isn't base64") from None
    except UnicodeDecodeError:
        raise TemplateError(f"{origin_of(value)} isn't text in UTF-8 after b64decode") from None
    return withheld_like(value, found)


def b64encode(meter: Meter, value: Any) -> Any:
    """A text in base64."""
    if value is None:
        return None
    text = _text(reveal(value), value, "b64encode")
    meter.make(2 * len(text))
    try:
        encoded = base64.b64encode(text.encode()).decode("ascii")
    except UnicodeEncodeError:
        raise TemplateError(f"{origin_of(value)} has half of a character") from None
    return withheld_like(value, encoded)


def from_json(meter: Meter, value: Any) -> Any:
    """The maps, lists and values that a JSON text means."""
    if value is None:
        return None
    text = _text(_open(value), value, "from_json")
    meter.take(10, 6 * len(text))
    try:
        found = read_json(text)
    except UnreadableJsonError:
        raise TemplateError(f"{origin_of(value)} isn't JSON") from None
    meter.weigh(found)
    return found


def to_json(meter: Meter, value: Any) -> str:
    """A value as JSON in one line, keys sorted."""
    found = _plain(meter, value, "to_json")
    try:
        return msgspec.json.encode(found, order="sorted").decode()
    except (ValueError, TypeError, OverflowError, msgspec.MsgspecError):
        raise TemplateError(f"{origin_of(value)} can't be written as JSON") from None


def to_yaml(meter: Meter, value: Any) -> str:
    """A value as YAML, keys sorted."""
    found = _plain(meter, value, "to_yaml", steps=_YAML_STEPS, price=_YAML_CHARACTERS)
    try:
        return str(yaml.dump(found, Dumper=_DUMPER, allow_unicode=True, default_flow_style=False))
    except (ValueError, TypeError, yaml.YAMLError):
        raise TemplateError(f"{origin_of(value)} can't be written as YAML") from None


def number(meter: Meter, value: Any) -> Any:
    """The number that a text is; unlike with `int`, anything else is an error."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    text = _text(_defined(_open(value)), value, "number").strip()
    meter.take(10, len(text))
    if not _NUMBER.fullmatch(text):
        raise TemplateError(f"{origin_of(value)} isn't a number")
    return int(text) if text.lstrip("+-").isdigit() else float(text)


def boolean(meter: Meter, value: Any) -> Any:
    """True or false, as a text says it; anything else is an error."""
    if value is None or isinstance(value, bool):
        return value
    text = _text(_defined(_open(value)), value, "bool").strip().lower()
    meter.take(10, len(text))
    if text not in _BOOLEANS:
        raise TemplateError(f"{origin_of(value)} is neither true nor false")
    return _BOOLEANS[text]


def merge_dockerconfig(meter: Meter, value: Any) -> str:
    """One .dockerconfigjson of several: of each registry the first one's credentials."""
    return merged_config(meter, _listed(meter, value))


def pem_bundle(meter: Meter, value: Any, drop_expired: bool = False, key: Any = None) -> str:
    """All certificates, each once; nothing else comes out, so Secrets' may be read here."""
    # Loads cryptography, which few operators need.
    from copyrator.copies.template.pem_bundle import bundled  # noqa: PLC0415

    scope = meter.scope
    if drop_expired and scope is None:
        raise TemplateError("pem_bundle(drop_expired=true) needs spec.sources")
    if key is not None and not isinstance(key, str):
        raise TemplateError("pem_bundle: key must be a string")
    may_reveal = scope is None or scope.bundles or scope.reveals
    now = scope.now if scope is not None and drop_expired else None
    text, until = bundled(
        meter, _listed(meter, value), key=key, now=now, reveal=reveal if may_reveal else _open
    )
    if scope is not None and until is not None:
        known = scope.findings.until
        scope.findings.until = until if known is None else min(known, until)
    return text


FILTERS: Final[Mapping[str, Filter]] = {
    "b64decode": b64decode,
    "b64encode": b64encode,
    "from_json": from_json,
    "to_json": to_json,
    "to_yaml": to_yaml,
    "number": number,
    "bool": boolean,
    "merge_dockerconfig": merge_dockerconfig,
    "pem_bundle": pem_bundle,
}


def _listed(meter: Meter, value: Any) -> Sequence[Any]:
    """One value or several, as a list without None."""
    if isinstance(value, str | Withheld | Mapping) or value is None:
        value = [value]
    if isinstance(value, Undefined) or not isinstance(value, list | tuple):
        raise TemplateError("takes a source, a text, or a list of them")
    meter.take(len(value))
    return [one for one in value if one is not None]


def _open(value: Any) -> Any:
    """The value, which must not be withheld."""
    if isinstance(value, Withheld):
        str(value)  # raises
    return value


def _defined(value: Any) -> Any:
    if isinstance(value, Undefined):
        str(value)  # raises, and names it
    return value


def _text(found: Any, value: Any, name: str) -> str:
    if not isinstance(found, str):
        raise TemplateError(f"{name} takes a text; {origin_of(value)} is none")
    return str.__str__(found)


def _plain(meter: Meter, value: Any, name: str, steps: int = 1, price: int = 6) -> Any:
    """A value of JSON's types only, counted, without our own types in it."""
    meter.take(10, price * meter.weigh(value))
    return _copied(meter, value, name, steps)


def _copied(meter: Meter, value: Any, name: str, steps: int) -> Any:
    """Not deeper than `weigh` allows."""
    meter.take(steps)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Mapping):
        return {_key(key, name): _copied(meter, one, name, steps) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(meter, one, name, steps) for one in value]
    if isinstance(value, Withheld):
        str(value)  # raises
    if isinstance(value, Undefined):
        raise TemplateError(f"{name}: a value in it is undefined")
    raise TemplateError(f"{name} takes maps, lists, texts, numbers, true, false and none")


def _key(key: Any, name: str) -> str:
    if not isinstance(key, str):
        raise TemplateError(f"{name}: the keys of a map must be texts")
    return str.__str__(key)
