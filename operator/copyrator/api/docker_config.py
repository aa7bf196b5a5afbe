"""Docker configurations of Secrets: what a key means, and the credentials of an entry.

Sources: kubelet (pkg/credentialprovider: keyring.go, config.go), containers/image
(pkg/docker/config) and docker/cli (cli/config).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from copyrator.api.schema import UnreadableJsonError, read_json, text_in

CREDENTIAL_BYTES: Final = 16 * 1024
"""Bytes of a user's name, a password or a token in the Secret of ``auth``: servers accept no longer
headers."""

DOCKER_CONFIG_BYTES: Final = 256 * 1024
"""Bytes of a ``.dockerconfigjson``, which is parsed whole: a thousand registries and more."""

KEY: Final = ".dockerconfigjson"
"""Of a Secret of the type kubernetes.io/dockerconfigjson."""
OLD_KEY: Final = ".dockercfg"
"""Of a Secret of the type kubernetes.io/dockercfg: what is below auths in the other one."""
OLD_TYPE: Final = "kubernetes.io/dockercfg"

HUB_KEY: Final = "https://index.docker.io/v1/"
"""The only key by which all clients find Docker Hub's credentials."""
HUB_PULLS: Final = frozenset({"registry-1.docker.io", "registry.hub.docker.com"})
"""Hosts of Docker Hub that images may name; credentials for these are found by that name only."""
HUB_HOSTS: Final = HUB_PULLS | {
    "docker.io",
    "index.docker.io",
    "registry.docker.io",
    "hub.docker.com",
}

_ADDRESS: Final = re.compile(
    r"(?:https?://)?([^/]*)(?:/v[12](?=/|\Z))?(.*)", re.IGNORECASE | re.DOTALL
)
_URL_ALPHABET: Final = str.maketrans("-_", "+/")


class DockerLogin(NamedTuple):
    """The credentials of an entry; those that it doesn't have are empty."""

    username: str
    password: str
    identity_token: str
    registry_token: str


class DockerConfig(NamedTuple):
    """A configuration that was parsed."""

    auths: Mapping[str, Any]
    others: frozenset[str]
    """Its other fields that aren't empty, such as ``credsStore``."""


class NoDockerConfigError(ValueError):
    """The text isn't a configuration; the message says why and quotes nothing."""


def is_old(data: Mapping[str, Any], type_: Any) -> bool:
    """Whether the configuration in a Secret is the one under ``.dockercfg``."""
    return OLD_KEY in data and (KEY not in data or type_ == OLD_TYPE)


def read_config(text: str, *, old: bool) -> DockerConfig:
    """Parse a configuration, ``old``: of the form of ``.dockercfg``; a placeholder has no entries.

    Raises:
        NoDockerConfigError: it isn't one.
    """
    try:
        config = read_json(text) if text.strip() else {}
    except UnreadableJsonError:
        raise NoDockerConfigError("isn't JSON") from None
    if config is None:
        config = {}
    auths = config
    if isinstance(config, Mapping) and not (old and "auths" not in config):
        auths = config.get("auths")
        if auths is None and not any(map(_has_credentials, config.values())):
            auths = {}
    if not isinstance(auths, Mapping):
        raise NoDockerConfigError("is no map" if old else "has no map auths")
    if auths is config:
        return DockerConfig(auths, frozenset())
    others = (name for name, value in config.items() if value and name != "auths")
    return DockerConfig(auths, frozenset(others))


def split_key(key: str) -> tuple[str, str]:
    """The host as it is written, and the path of a group or repository, ``/group/app``.

    A scheme, and the paths ``/v1/`` and ``/v2/``, mean nothing.
    """
    found = _ADDRESS.fullmatch(key)
    assert found is not None, "each part may be empty"
    return found[1], found[2].rstrip("/")


def read_entry(entry: Mapping[str, Any]) -> DockerLogin | None:
    """What an entry logs in with; None: nothing, as a placeholder or an address of mail.

    As for docker and kubelet, ``auth`` beats ``username`` and ``password``, which may be stale.
    docker removes zero bytes from a password.

    Raises:
        ValueError: ``auth`` isn't base64 of UTF-8.
    """
    fields = {str(name).lower(): value for name, value in entry.items()}
    user, password = text_in(fields, "username"), text_in(fields, "password")
    if auth := text_in(fields, "auth").strip():
        user, _, password = decode_auth(auth).partition(":")
    user, password = drop_line_end(user), drop_line_end(password.strip("\0"))
    tokens = text_in(fields, "identitytoken").strip(), text_in(fields, "registrytoken").strip()
    return DockerLogin(user, password, *tokens) if password or any(tokens) else None


def drop_line_end(text: str) -> str:
    """A user name or password without the line end that an editor or ``echo`` put after it.

    One only: other white space is a part of a password.
    """
    return text.removesuffix("\r\n") if text.endswith("\r\n") else text.removesuffix("\n")


def decode_auth(text: str) -> str:
    """Decode base64 of either alphabet, wrapped or not, with or without its padding."""
    plain = "".join(text.split()).translate(_URL_ALPHABET).rstrip("=")
    return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True).decode()


def _has_credentials(value: Any) -> bool:
    try:
        return isinstance(value, Mapping) and read_entry(value) is not None
    except ValueError:
        return True
