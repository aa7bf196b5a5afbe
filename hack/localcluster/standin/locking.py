"""The lock of a release, which werf keeps in a ConfigMap of its namespace."""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha3_224
from http import HTTPStatus

from .client import Client, RefusedError
from .errors import WerfError, doing, pause
from .manifests import Object, core

NAME = "werf-synchronization"
_TRIES = 10
_SECONDS = 10
"""How long a lease holds."""
_RENEWAL = 5
_POLL = 0.2


@contextmanager
def locked(name: str, namespace: str, client: Client, lock: Object) -> Iterator[None]:
    """Let one process at a time work on a release.

    The real one takes a lease over when it has expired; here all are on one machine, so that of a
    process that has ended is taken over at once.

    Args:
        name: the release's.
        namespace: the release's.
        client: its connection.
        lock: the ConfigMap, which is there.
    """
    lease = _Lease(f"release/{name}", lock)
    lease.acquire(client)
    ended = threading.Event()
    renewing = threading.Thread(target=lease.renew, args=(namespace, ended), daemon=True)
    renewing.start()
    try:
        yield
    finally:
        ended.set()
        renewing.join()
        with suppress(WerfError):
            lease.release(client)


class _Lease:
    """An annotation of the ConfigMap."""

    def __init__(self, name: str, lock: Object) -> None:
        self._name = name
        self._key = f"lockgate.io/{sha3_224(name.encode()).hexdigest()}"
        self._lock = lock
        self._holder = {"UUID": str(uuid.uuid4()), "LockName": name, "pid": os.getpid()}

    def acquire(self, client: Client) -> None:
        """Wait for it, and take it; what the API server refuses is tried again."""
        with doing("lock release: acquire release lock"):
            for number in range(1, _TRIES + 1):
                try:
                    while not self._take(client):
                        time.sleep(_POLL)
                except RefusedError as error:
                    put = f"unable to put store value by key {self._key}"
                    update = "cannot update /v1, Resource=configmaps by name"
                    words = f"acquire lock: {put}: {update} {NAME}: {error}"
                    print(f"ERROR: unable to acquire lock {self._name}: {words}\n", flush=True)
                    if number == _TRIES:
                        raise WerfError(words) from None
                    pause(4)
                else:
                    return

    def renew(self, namespace: str, ended: threading.Event) -> None:
        """Hold it until the event."""
        client = None
        while not ended.wait(_RENEWAL):
            with suppress(WerfError):
                client = client or Client(namespace)
                self._put(client, held=True)

    def release(self, client: Client) -> None:
        """Take it away."""
        while not self._put(client, held=False):
            pass

    def _put(self, client: Client, *, held: bool) -> bool:
        """Write it, or take it away; False if somebody else wrote to the ConfigMap meanwhile."""
        marks: dict[str, str] = self._lock["metadata"].setdefault("annotations", {})
        if held:
            lease = {**self._holder, "ExpireAtTimestamp": int(time.time()) + _SECONDS}
            marks[self._key] = json.dumps({**lease, "SharedHoldersCount": 1})
        else:
            marks.pop(self._key, None)
        try:
            self._lock = client.update(self._lock)
        except RefusedError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            self._lock = client.get(core("ConfigMap", NAME)) or self._lock
            return False
        return True

    def _take(self, client: Client) -> bool:
        """Take it if it is free."""
        marks = self._lock["metadata"].get("annotations") or {}
        lease = json.loads(marks.get(self._key, "{}"))
        if lease and lease["ExpireAtTimestamp"] > time.time() and _is_alive(lease.get("pid")):
            self._lock = client.get(core("ConfigMap", NAME)) or self._lock
            return False
        return self._put(client, held=True)


def _is_alive(pid: int | None) -> bool:
    if pid is None:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def prepare(namespace: str, client: Client, *, create_namespace: bool) -> Object:
    """The ConfigMap that werf locks with; it is made, and before it a namespace that is missing.

    In werf's order: whoever may write the ConfigMap needs no right on namespaces.
    """
    lock = core("ConfigMap", NAME)
    with suppress(RefusedError):
        if found := client.get(lock):
            return found
    refusal = _refusal(client, lock)
    if create_namespace and ("not found" in refusal or "forbidden" in refusal):
        try:
            if client.get(core("Namespace", namespace)) is None:
                client.apply(core("Namespace", namespace))
        except RefusedError as error:
            raise WerfError(
                "can't apply ConfigMap for locking, and can't apply release "
                f"namespace: {refusal}; {error}"
            ) from None
        refusal = _refusal(client, lock)
    if refusal and "already exists" not in refusal:
        raise WerfError(refusal)
    return client.get(lock) or lock


def _refusal(client: Client, lock: Object) -> str:
    """Make the ConfigMap; why it can't be made, in kubectl's words, or an empty text."""
    try:
        client.create(lock)
    except RefusedError as error:
        return f"failed to create configmap: {error}"
    return ""
