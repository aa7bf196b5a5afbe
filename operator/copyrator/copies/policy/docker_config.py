"""Merges the registries' credentials of several Secrets into one .dockerconfigjson."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from copyrator.api.json_text import UnreadableJsonError, read_json
from copyrator.copies.policy.template_meter import Meter, TemplateError
from copyrator.copies.policy.template_values import SourceObject, Withheld, origin_of

KEY: Final = ".dockerconfigjson"
"""Of a Secret of the type kubernetes.io/dockerconfigjson."""

_HOST: Final = re.compile(
    r"(https?://)?[A-Za-z0-9*]([-A-Za-z0-9.*_:/]{0,250}[A-Za-z0-9/])?", re.ASCII
)

Override = tuple[str, str, str]
"""A registry, the source whose credentials aren't used, the one whose are."""


def merged_config(meter: Meter, values: Sequence[Any]) -> tuple[str, list[Override]]:
    """The merged text, and the credentials of later sources that an earlier source overrides.

    Raises:
        TemplateError: a value isn't such a Secret or text; the message names it.
    """
    auths: dict[str, Any] = {}
    first: dict[str, str] = {}
    overridden: list[Override] = []
    for value in values:
        where = origin_of(value)
        for host, entry in _auths(meter, value).items():
            if host not in auths:
                auths[host] = entry
                first[host] = where
            elif auths[host] != entry:
                overridden.append((shown_host(host), _short(where), _short(first[host])))
    meter.weigh(auths)
    return msgspec.json.encode({"auths": auths}, order="sorted").decode(), overridden


def shown_host(host: str) -> str:
    """A registry for messages; only a host name is shown, since it comes from a Secret."""
    return host if _HOST.fullmatch(host) else "(not a host name)"


def _short(where: str) -> str:
    """``hub (infra/hub-creds)``."""
    return where.removeprefix("source ").partition(", key ")[0]


def _auths(meter: Meter, value: Any) -> Mapping[str, Any]:
    where = origin_of(value)
    text = _config_of(meter, value, where)
    meter.take(10, 3 * len(text))
    try:
        config = read_json(text)
    except UnreadableJsonError:
        raise TemplateError(f"{where}: {KEY} isn't JSON") from None
    auths = config.get("auths") if isinstance(config, Mapping) else None
    if not isinstance(auths, Mapping):
        raise TemplateError(f"{where}: {KEY} has no map auths")
    meter.take(5 * len(auths))
    if not all(isinstance(entry, Mapping) for entry in auths.values()):
        raise TemplateError(f"{where}: an entry of auths in {KEY} isn't a map")
    return auths


def _config_of(meter: Meter, value: Any, where: str) -> str:
    """The JSON text of a Secret, or the text itself."""
    if isinstance(value, Withheld):
        return str(value)  # raises
    if isinstance(value, str):
        return str.__str__(value)
    if not isinstance(value, SourceObject) or value.get("kind") != "Secret":
        raise TemplateError(f"merge_dockerconfig takes Secrets of spec.sources; {where} is none")
    found = value["data"].get(KEY)
    if found is None:
        raise TemplateError(
            f"{where} has no key {KEY}; it must be of the type kubernetes.io/dockerconfigjson"
        )
    if isinstance(found, Withheld):
        return str(found)  # raises
    meter.take(10, 2 * len(found))
    try:
        return base64.b64decode(found.encode("ascii"), validate=True).decode()
    except (UnicodeError, binascii.Error):
        raise TemplateError(f"{where}: {KEY} isn't text in base64") from None
