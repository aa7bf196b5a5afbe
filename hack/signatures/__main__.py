"""``python -m signatures [DIRECTORY]``: make the material anew; minutes, most of it building."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from localcluster.errors import LocalClusterError
from signatures.make import make

RECORDED = Path(__file__).parents[2] / "tests" / "signatures" / "recorded"


def main() -> int:
    """Make it beside its place and move it there: what is there stays if something fails."""
    parser = argparse.ArgumentParser(prog="python -m signatures", description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=RECORDED)
    directory: Path = parser.parse_args().directory
    with tempfile.TemporaryDirectory(prefix="signatures-") as name:
        made = Path(name) / "recorded"
        try:
            index = make(made)
        except LocalClusterError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(made, directory)
    rows = sum(len(case["rows"]) for case in index["cases"])
    print(f"{len(index['cases'])} cases, {rows} rows in {directory}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
