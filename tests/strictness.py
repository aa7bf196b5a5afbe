"""Lets older Pythons create TLS contexts as 3.13 does. Needs nothing but ssl and urllib3."""

from __future__ import annotations

import inspect
import ssl
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import urllib3.connection

IS_STRICT = sys.version_info >= (3, 13)
"""Whether this Python sets VERIFY_X509_STRICT by itself."""


def functions() -> Iterator[tuple[Any, str, Callable[..., ssl.SSLContext]]]:
    """What creates contexts by default: its module, its name, and what stands there on 3.13."""
    for module, name in (
        (ssl, "create_default_context"),
        (ssl, "_create_default_https_context"),
        (urllib3.connection, "create_urllib3_context"),
    ):
        own = inspect.unwrap(getattr(module, name))
        yield module, name, own if IS_STRICT else _strict(own)


def install() -> bool:
    """Replace them in this process; for child processes. Says whether the flag is set now."""
    for module, name, function in functions():
        setattr(module, name, function)
    return bool(ssl.create_default_context().verify_flags & ssl.VERIFY_X509_STRICT)


def _strict(create: Callable[..., ssl.SSLContext]) -> Callable[..., ssl.SSLContext]:
    @wraps(create)
    def created(*args: Any, **options: Any) -> ssl.SSLContext:
        context = create(*args, **options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
        return context

    return created
