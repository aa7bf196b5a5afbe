"""Installs Debian's Chromium for the tests of the local web page: `make test-ui`."""

from __future__ import annotations

import sys

from images import machine
from localcluster.errors import LocalClusterError
from localcluster.progress import Progress

NAME = "chromium"


def main() -> int:
    """Install it where it is missing; 1 where that isn't possible."""
    if machine.find(NAME) is not None:
        return 0
    try:
        machine.install([NAME], Progress.on_stderr())
    except LocalClusterError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
