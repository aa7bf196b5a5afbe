"""The server of the stand-in for werf, for the containers of a node."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from localcluster.standin.served import SERVER
from localcluster.standin.settings import MAJOR

_LONGEST = 100
"""Bytes of a socket's path; the kernel takes 107."""


def major(image: str) -> dict[str, str]:
    """What tells the stand-in to play the werf of an image with a tag of version 3."""
    return {MAJOR: "3"} if re.search(r":v?3\.[^/]*$", image) else {}


@dataclass(slots=True)
class StandIn:
    """Starts the server for the first container; a context manager that ends it.

    Attributes:
        socket: the server's socket.
    """

    socket: Path
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._process is not None:
            self._process.communicate()  # it ends with its input

    def variables(self) -> dict[str, str]:
        """What tells the stand-in of its server; until that answers, it runs without."""
        if len(os.fsencode(self.socket)) > _LONGEST:
            return {}
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "localcluster.standin.server", str(self.socket)],
                stdin=subprocess.PIPE,
            )
        return {SERVER: str(self.socket)}
