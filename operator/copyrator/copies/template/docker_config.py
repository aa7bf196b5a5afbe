"""Merges the registries' credentials of several Secrets into one .dockerconfigjson.

What is one registry follows kubelet (pkg/credentialprovider/keyring.go): a scheme, and the paths
/v1/ and /v2/, mean nothing; another path is a part of the registry.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from copyrator.api.docker_config import (
    HUB_HOSTS,
    HUB_KEY,
    HUB_PULLS,
    KEY,
    OLD_KEY,
    OLD_TYPE,
    NoDockerConfigError,
    is_old,
    read_config,
    read_entry,
    split_key,
)
from copyrator.copies.template.meter import Meter, TemplateError
from copyrator.copies.template.values import SourceObject, Withheld, origin_of

_HUB: Final = "docker.io"

_HOST: Final = re.compile(
    r"(https?://)?[A-Za-z0-9*]([-A-Za-z0-9.*_:/]{0,250}[A-Za-z0-9/])?", re.ASCII
)
_ENTRY_STEPS: Final = 20
"""Steps for each entry: comparing one takes 5 us."""


class _Registry(NamedTuple):
    name: str
    """Equal for all spellings of one registry."""
    key: str
    """Of its entry in the result."""


class _Used(NamedTuple):
    key: str
    entry: Mapping[str, Any]
    credentials: tuple[str, ...]
    where: str


def merged_config(meter: Meter, values: Sequence[Any]) -> str:
    """The merged text: of each registry the first credentials.

    Whose credentials aren't used, and which values have none, is added to the findings.

    Raises:
        TemplateError: a value isn't such a Secret or text; the message names it.
    """
    used: dict[str, _Used] = {}
    pulls: set[str] = set()
    for value in values:
        where, empty = origin_of(value), True
        if _lacks_keys(value):
            meter.findings.pass_over(where, f"has no key {KEY}")
            continue
        auths = _auths(meter, value)
        # Of several spellings in one configuration, clients look up the result's first.
        registries = {host: _registry(host) for host in auths}
        for host in sorted(auths, key=lambda one: (one != registries[one].key, one)):
            credentials = _credentials(auths[host])
            if credentials is None:
                continue
            empty, registry = False, registries[host]
            name, path = split_key(host)
            if not path:
                pulls |= {name.lower()} & HUB_PULLS
            first = used.setdefault(
                registry.name, _Used(registry.key, auths[host], credentials, where)
            )
            if first.credentials != credentials:
                lost = (shown_host(host), _short(where), _short(first.where))
                meter.findings.overridden[lost] = None
        if empty:
            meter.findings.pass_over(where, "has no credentials")
    result = {one.key: one.entry for one in used.values()}
    if _HUB in used:
        result |= dict.fromkeys(pulls, used[_HUB].entry)
    meter.weigh(result)
    return msgspec.json.encode({"auths": result}, order="sorted").decode()


def shown_host(host: str) -> str:
    """A registry for messages; only a host name is shown, since it comes from a Secret."""
    return host if _HOST.fullmatch(host) else "(not a host name)"


def _short(where: str) -> str:
    """``hub (infra/hub-creds)``."""
    return where.removeprefix("source ").partition(", key ")[0]


def _registry(key: str) -> _Registry:
    host, path = split_key(key)
    if host.lower() in HUB_HOSTS:
        return _Registry(_HUB + path, _HUB + path if path else HUB_KEY)
    return _Registry(host.lower() + path, host + path)


def _credentials(entry: Mapping[str, Any]) -> tuple[str, ...] | None:
    """What a client would log in with; None: nothing."""
    try:
        return read_entry(entry)
    except ValueError:
        return ("", str(entry.get("auth")))  # clients may know better


def _auths(meter: Meter, value: Any) -> Mapping[str, Mapping[str, Any]]:
    """The entries by registry; empty where there is nothing (yet) but a placeholder."""
    where = origin_of(value)
    text, old = _config_of(meter, value, where)
    key = OLD_KEY if old else KEY
    meter.take(10, 3 * len(text))
    try:
        auths = read_config(text, old=old).auths
    except NoDockerConfigError as error:
        raise TemplateError(f"{where}: {key} {error}") from None
    meter.take(_ENTRY_STEPS * len(auths))
    if not all(entry is None or isinstance(entry, Mapping) for entry in auths.values()):
        raise TemplateError(f"{where}: an entry of auths in {key} isn't a map")
    return {host: entry or {} for host, entry in auths.items()}


def _lacks_keys(value: Any) -> bool:
    """Whether it is a Secret of another type, one of those that aren't named one by one."""
    if not isinstance(value, SourceObject) or value.get("kind") != "Secret":
        return False
    return value.may_lack_keys and not value["data"].keys() & {KEY, OLD_KEY}


def _config_of(meter: Meter, value: Any, where: str) -> tuple[str, bool]:
    """The JSON text of a Secret, or the text itself, and whether its form is that of .dockercfg."""
    if isinstance(value, Withheld):
        str(value)  # raises
    if isinstance(value, str):
        return str.__str__(value), where.endswith(f", key {OLD_KEY}")
    if not isinstance(value, SourceObject) or value.get("kind") != "Secret":
        raise TemplateError(f"merge_dockerconfig takes Secrets of spec.sources; {where} is none")
    data = value["data"]
    old = is_old(data, value.get("type"))
    key = OLD_KEY if old else KEY
    found = data.get(key)
    if found is None:
        raise TemplateError(
            f"{where} has no key {KEY}; it must be of the type kubernetes.io/dockerconfigjson, or "
            f"{OLD_TYPE} with the key {OLD_KEY}"
        )
    if isinstance(found, Withheld):
        str(found)  # raises
    meter.take(10, 2 * len(found))
    try:
        return base64.b64decode(found.encode("ascii"), validate=True).decode(), old
    except (UnicodeError, binascii.Error):
        raise TemplateError(f"{where}: {key} isn't text in base64") from None
