"""`werf kubectl`, as far as Jobs ask the API server by it."""

from __future__ import annotations

import sys

from .client import Client, RefusedError
from .manifests import core


def answer(verb: str, resource: str, namespace: str) -> None:
    """Print whether the account may do something.

    Raises:
        SystemExit: it may not.
        WerfError: it can't be asked.
    """
    allowed = Client(namespace).may(verb, resource)
    print("yes" if allowed else "no")
    if not allowed:
        sys.exit(1)


def probe(kind: str, name: str, namespace: str) -> None:
    """Make a ConfigMap or a Namespace, as a dry run."""
    body = core({"configmap": "ConfigMap", "namespace": "Namespace"}[kind], name)
    try:
        Client(namespace).create(body, manager="kubectl-create", dry=True)
    except RefusedError as error:
        what = f"failed to create {kind}: " if kind == "configmap" else ""
        reason = "NotFound" if error.status == 404 else "Forbidden"
        print(f"Error from server ({reason}): {what}{error}", file=sys.stderr)
        sys.exit(1)
    print(f"{kind}/{name} created (server dry run)")
