"""The server of the stand-in for werf, for the containers of a node."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from localcluster.standin.served import SERVER
from localcluster.standin.settings import PLAYED, VERSIONS

from .status import image_id

_LONGEST = 100
"""Bytes of a socket's path; the kernel takes 107."""
_TAG = re.compile(r":v?(?P<major>\d+)(?:\.(?P<minor>\d+))?(?:[.-][^/]*)?$")


def played(image: str, env: Mapping[str, str]) -> dict[str, str]:
    """What tells the stand-in in a container which werf it plays.

    Args:
        image: the container's. Of the versions that are played, it is the last up to the tag's,
            or the first of that major version; a digest stands for the tag that it was made from.
        env: says it where the tag has no version.
    """
    repo, _, digest = image.partition("@")
    if digest:
        named = (f"{repo}:{each[1:]}" for each in VERSIONS)
        repo = next((each for each in named if image_id(each) == image), repo)
    found = _TAG.search(repo)
    if found is None:
        return {PLAYED: env[PLAYED]} if env.get(PLAYED) else {}
    limit = (int(found["major"]), float(found["minor"] or "inf"))
    numbers = {each: tuple(map(int, each[1:].split("."))) for each in VERSIONS}
    same = [each for each in VERSIONS if numbers[each][0] == limit[0]] or VERSIONS
    before = [each for each in same if numbers[each][:2] <= limit]
    return {PLAYED: before[-1] if before else same[0]}


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
