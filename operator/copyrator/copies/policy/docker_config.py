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

from copyrator.api.json_text import UnreadableJsonError, read_json
from copyrator.copies.policy.template_meter import Meter, TemplateError
from copyrator.copies.policy.template_values import SourceObject, Withheld, origin_of

KEY: Final = ".dockerconfigjson"
"""Of a Secret of the type kubernetes.io/dockerconfigjson."""
OLD_KEY: Final = ".dockercfg"
"""Of a Secret of the type kubernetes.io/dockercfg: what is below auths in the other one."""
_OLD_TYPE: Final = "kubernetes.io/dockercfg"

_HUB: Final = "docker.io"
_HUB_KEY: Final = "https://index.docker.io/v1/"
"""The only key by which all clients find Docker Hub's credentials."""
_HUB_PULLS: Final = frozenset({"registry-1.docker.io", "registry.hub.docker.com"})
"""Hosts of Docker Hub that images may name; credentials for these are found by that name only."""
_HUB_HOSTS: Final = _HUB_PULLS | {_HUB, "index.docker.io", "registry.docker.io", "hub.docker.com"}

_HOST: Final = re.compile(
    r"(https?://)?[A-Za-z0-9*]([-A-Za-z0-9.*_:/]{0,250}[A-Za-z0-9/])?", re.ASCII
)
_ADDRESS: Final = re.compile(
    r"(?:https?://)?(?P<host>[^/]*)(?P<path>.*)", re.IGNORECASE | re.DOTALL
)
_NO_PATH: Final = frozenset({"", "/", "/v1", "/v2", "/v1/", "/v2/"})
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
            pulls |= {_host(host)} & _HUB_PULLS
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


def _host(key: str) -> str:
    """The host of a key without a path; otherwise an empty text."""
    found = _ADDRESS.fullmatch(key)
    return found["host"].lower() if found and found["path"] in _NO_PATH else ""


def _registry(key: str) -> _Registry:
    found = _ADDRESS.fullmatch(key)
    assert found is not None
    host, path = found["host"], found["path"]
    if path in _NO_PATH:
        path = ""
    elif path.startswith(("/v1/", "/v2/")):
        path = path[3:]
    if host.lower() in _HUB_HOSTS:
        return _Registry(_HUB + path, _HUB + path if path else _HUB_KEY)
    return _Registry(host.lower() + path, host + path)


def _credentials(entry: Mapping[str, Any]) -> tuple[str, ...] | None:
    """What a client would log in with; None: nothing.

    As for docker and kubelet, ``auth`` beats ``username`` and ``password``.
    """
    user, password = _text(entry, "username"), _text(entry, "password")
    if auth := _text(entry, "auth"):
        try:
            decoded = base64.b64decode(auth, validate=True).decode()
        except ValueError:
            user, password = "", auth  # clients may know better
        else:
            user, _, password = decoded.partition(":")
    tokens = (_text(entry, "identitytoken"), _text(entry, "registrytoken"))
    return (user, password, *tokens) if password or any(tokens) else None


def _text(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name)
    return value.strip("\0 \t\r\n") if isinstance(value, str) else ""


def _auths(meter: Meter, value: Any) -> Mapping[str, Mapping[str, Any]]:
    """The entries by registry; empty where there is nothing (yet) but a placeholder."""
    where = origin_of(value)
    text, old = _config_of(meter, value, where)
    key = OLD_KEY if old else KEY
    meter.take(10, 3 * len(text))
    try:
        config = read_json(text) if text.strip() else None
    except UnreadableJsonError:
        raise TemplateError(f"{where}: {key} isn't JSON") from None
    if config is None:
        return {}
    auths = config
    if isinstance(config, Mapping) and not (old and "auths" not in config):
        auths = config.get("auths")
        if auths is None and not any(map(_is_entry, config.values())):
            auths = {}
    if not isinstance(auths, Mapping):
        raise TemplateError(f"{where}: {key} {'is no map' if old else 'has no map auths'}")
    meter.take(_ENTRY_STEPS * len(auths))
    if not all(entry is None or isinstance(entry, Mapping) for entry in auths.values()):
        raise TemplateError(f"{where}: an entry of auths in {key} isn't a map")
    return {host: entry or {} for host, entry in auths.items()}


def _is_entry(value: Any) -> bool:
    return isinstance(value, Mapping) and _credentials(value) is not None


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
    old = OLD_KEY in data and (KEY not in data or value.get("type") == _OLD_TYPE)
    key = OLD_KEY if old else KEY
    found = data.get(key)
    if found is None:
        raise TemplateError(
            f"{where} has no key {KEY}; it must be of the type kubernetes.io/dockerconfigjson, or "
            f"{_OLD_TYPE} with the key {OLD_KEY}"
        )
    if isinstance(found, Withheld):
        str(found)  # raises
    meter.take(10, 2 * len(found))
    try:
        return base64.b64decode(found.encode("ascii"), validate=True).decode(), old
    except (UnicodeError, binascii.Error):
        raise TemplateError(f"{where}: {key} isn't text in base64") from None
