"""``python -m signatures [DIRECTORY]``: make the material anew; minutes, most of it building.

With ``--attestations`` only the attestations, and the rest stays.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from localcluster.errors import LocalClusterError
from signatures.attestations import PREFIX
from signatures.make import make
from signatures.record import merge

RECORDED = Path(__file__).parents[2] / "tests" / "signatures" / "recorded"


def main() -> int:
    """Make it beside its place and move it there: what is there stays if something fails."""
    parser = argparse.ArgumentParser(prog="python -m signatures", description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=RECORDED)
    parser.add_argument("--attestations", action="store_true", help="make only these anew")
    options = parser.parse_args()
    directory: Path = options.directory
    with tempfile.TemporaryDirectory(prefix="signatures-") as name:
        made = Path(name) / "recorded"
        try:
            index = make(made, attestations_only=options.attestations)
        except LocalClusterError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        if options.attestations:
            index = merge(directory, made, PREFIX)
        else:
            shutil.rmtree(directory, ignore_errors=True)
            shutil.copytree(made, directory)
    rows = sum(len(case["rows"]) for case in index["cases"])
    print(f"{len(index['cases'])} cases, {rows} rows in {directory}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
