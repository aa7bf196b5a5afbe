"""Every state of some objects, as a watch showed them, from the start to the end of a test."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

from localcluster import Api


@dataclass
class Recorder:
    """A context manager that watches one collection in a thread of its own."""

    api: Api
    path: str
    states: list[dict[str, Any]] = field(default_factory=list)
    """All states of all objects, in the order in which they came about."""
    _closing: bool = False

    def __enter__(self) -> Self:
        version = self.api.get(self.path)["metadata"]["resourceVersion"]
        address = urlsplit(self.api.server)
        self._connection = http.client.HTTPSConnection(
            address.hostname or "", address.port, context=self.api.context
        )
        # Longer than any test; the API server ends a watch by itself only then.
        query = f"watch=true&timeoutSeconds=7200&resourceVersion={version}"
        self._connection.request("GET", f"{self.path}?{query}")
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200, self._answer.read()
        self._thread = threading.Thread(target=self._read, name=f"watch of {self.path}")
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._closing = True
        self._connection.sock.shutdown(socket.SHUT_RDWR)  # wakes the thread, which close doesn't
        self._thread.join()
        self._connection.close()

    def whole(self) -> bool:
        """Whether the watch still goes on, so that nothing is missing."""
        return self._thread.is_alive()

    def newest(self) -> dict[str, dict[str, Any]]:
        """The last state of each object by uid, also of those that are gone."""
        return {state["metadata"]["uid"]: state for state in self.states}

    def _read(self) -> None:
        try:
            for line in self._answer:
                self.states.append(json.loads(line)["object"])
        except OSError:
            if not self._closing:
                raise
