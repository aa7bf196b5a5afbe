"""TLS contexts that accept the certificates that kubectl, curl and Python 3.12 accept.

From Python 3.13 on ``ssl.create_default_context``, and urllib3 like it, set VERIFY_X509_STRICT: a
server is refused whose CA has no key identifier, or a basicConstraints that isn't critical, as on
EKS and MicroK8s. This flag alone is cleared here; all else of the verification stays.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, ParamSpec

P = ParamSpec("P")


def _not_strict(create: Callable[P, ssl.SSLContext]) -> Callable[P, ssl.SSLContext]:
    """A function that creates the same contexts without the flag."""

    @wraps(create)
    def created(*args: P.args, **kwargs: P.kwargs) -> ssl.SSLContext:
        context = create(*args, **kwargs)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return context

    return created


def create_context(
    *, cafile: str | None = None, capath: str | None = None, cadata: str | None = None
) -> ssl.SSLContext:
    """A client's context that trusts these CAs, or without any those of OpenSSL.

    Raises:
        OSError: a file can't be read; ``ssl.SSLError`` where it isn't PEM.
    """
    return _not_strict(ssl.create_default_context)(cafile=cafile, capath=capath, cadata=cadata)


def use_context(session: Any, context: ssl.SSLContext) -> None:
    """Let a session of requests verify by a context alone, also proxies and not by its own CAs."""

    def forget_files(pool: Any, *_: object) -> None:
        pool.ca_certs = pool.ca_cert_dir = None

    for adapter in session.adapters.values():
        adapter.poolmanager.connection_pool_kw["ssl_context"] = context
        adapter.proxy_manager_for = partial(
            adapter.proxy_manager_for, ssl_context=context, proxy_ssl_context=context
        )
        adapter.cert_verify = forget_files


def clear_strict_in_libraries() -> None:
    """Clear the flag in the contexts that libraries create, which take none of ours.

    It replaces functions of this process: for child processes and single commands, not for the
    operator.
    """
    import urllib3.connection  # noqa: PLC0415 - only there

    libraries: tuple[tuple[Any, str], ...] = (
        (ssl, "create_default_context"),
        (urllib3.connection, "create_urllib3_context"),
    )
    for library, name in libraries:
        setattr(library, name, _not_strict(getattr(library, name)))
