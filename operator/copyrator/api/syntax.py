"""The API server's rules for names, labels and keys, as checks that return the remedy.

Sources: RFC 1123 names, and ``k8s.io/apimachinery/pkg/util/validation``. Always ``fullmatch``:
Python's ``$`` accepts a trailing newline.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Final

from copyrator.api.text import truncate

Check = Callable[[str], str | None]
"""Takes a value, returns its fault and the remedy, or None."""


def shown(value: str, most: int = 80) -> str:
    """Quote a user's value for a message, shortened."""
    return repr(truncate(value, most))


def matching(pattern: str | re.Pattern[str], fault: str, most: int = 512) -> Check:
    """A check of a whole value of so many characters; the fault follows the quoted value."""
    usable = re.compile(pattern)

    def check(value: str) -> str | None:
        if len(value) <= most and usable.fullmatch(value):
            return None
        return f"{shown(value)} {fault}"

    return check


def among(words: Collection[str], fault: str) -> Check:
    """A check that a value is one of some words; the fault follows the quoted value."""
    return lambda value: None if value in words else f"{shown(value)} {fault}"


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
        return f"{shown(value)} is a pattern; list the namespaces by name"
    return (
        f"{shown(value)} isn't a valid namespace name; use at most 63 lower-case letters, digits "
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
        return f"{shown(value)} has a prefix that isn't a DNS name; write it as example.com/name"
    if len(name) <= 63 and _QUALIFIED.fullmatch(name):
        return None
    return (
        f"{shown(value)} isn't a valid label key; use at most 63 letters, digits, '-', '_' and "
        "'.', beginning and ending with a letter or digit"
    )


def check_label_value(value: str) -> str | None:
    """The value of a label; may be empty."""
    if not value or (len(value) <= 63 and _QUALIFIED.fullmatch(value)):
        return None
    return (
        f"{shown(value)} isn't a valid label value; use at most 63 letters, digits, '-', '_' and "
        "'.', beginning and ending with a letter or digit"
    )


def check_data_key(value: str) -> str | None:
    """A key of a ConfigMap or Secret."""
    if len(value) <= 253 and _DATA_KEY.fullmatch(value) and value not in (".", ".."):
        return None
    return (
        f"{shown(value)} isn't a valid key of a ConfigMap or Secret; "
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
        f"{shown(value)} isn't a valid name for an environment variable; "
        "use letters, digits, '_', '-' and '.', not beginning with a digit or '..'"
    )
