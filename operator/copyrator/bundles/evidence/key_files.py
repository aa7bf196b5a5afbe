"""The files of ConfigMaps and Secrets with public keys or certificates. Pure."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from copyrator.api.object_refs import LocalObjectRef, ValuesKind
from copyrator.signatures.model import CosignKeys, TrustError

Contents = Mapping[LocalObjectRef, Mapping[str, bytes] | None]
"""Files of objects; None for an object that doesn't exist."""

T = TypeVar("T")


def files_of(ref: LocalObjectRef, body: Mapping[str, Any]) -> Mapping[str, bytes]:
    """The files of a ConfigMap or Secret."""
    data: Mapping[str, str] = body.get("data") or {}
    if ref.kind is ValuesKind.CONFIG_MAP:
        return {name: text.encode() for name, text in data.items()}
    return {name: base64.b64decode(text) for name, text in data.items()}


def read_public_keys(ref: LocalObjectRef, namespace: str, contents: Contents) -> CosignKeys:
    """The public keys of an object.

    Call it in a thread: it loads cryptography and parses keys.

    Raises:
        TrustError: it doesn't exist, or has something else.
    """
    from copyrator.signatures.keys import read_keys  # noqa: PLC0415

    files = find_files(ref, namespace, contents)
    keys = checked(ref, namespace, lambda: read_keys(files))
    return CosignKeys(f"the cosign keys of {describe_ref(ref, namespace)}", keys)


def find_files(ref: LocalObjectRef, namespace: str, contents: Contents) -> Mapping[str, bytes]:
    """The files of one object.

    Raises:
        TrustError: it doesn't exist, or has none.
    """
    files = contents.get(ref)
    if files is None:
        raise TrustError(f"{describe_ref(ref, namespace)} doesn't exist: create it")
    if not files:
        raise TrustError(f"{describe_ref(ref, namespace)} is empty: add the keys or certificates")
    return files


def checked(ref: LocalObjectRef, namespace: str, read: Callable[[], T]) -> T:
    """What is read of an object, which its errors name.

    Raises:
        TrustError: by ``read``.
    """
    try:
        return read()
    except TrustError as error:
        raise TrustError(f"{describe_ref(ref, namespace)}: {error}") from None


def describe_ref(ref: LocalObjectRef, namespace: str) -> str:
    """``Secret team/keys``."""
    return f"{ref.kind} {namespace}/{ref.name}"
