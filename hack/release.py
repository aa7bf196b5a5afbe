"""Builds everything of a release into dist/: wheel, image, chart, CRDs and their checksums.

The version stands in `copyrator.__version__` alone; tests hold the chart to it. The same commit
gives the same bytes. `--no-image` leaves the image out, for machines without root or Debian.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import copyrator
from images import machine, product
from images.store import Store
from localcluster.build import Programs
from localcluster.errors import LocalClusterError

ROOT = Path(__file__).resolve().parents[1]
CHART = ROOT / "charts" / "copyrator"
VERSION = copyrator.__version__


def main() -> None:
    """Build and say what was made."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-image", action="store_true", help="leave the image out")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", metavar="DIRECTORY")
    options = parser.parse_args()
    try:
        build(options.output, image=not options.no_image)
    except LocalClusterError as error:
        sys.exit(str(error))


def build(output: Path, *, image: bool) -> None:
    """Build into `output`, which is emptied before.

    Raises:
        LocalClusterError: a tool is missing, or failed.
    """
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    # What else would be the time of the build becomes the time of the commit.
    when = _printed("git", "-C", str(ROOT), "log", "-1", "--format=%ct")
    wheel(output, when)
    chart(output)
    crds(output)
    if image:
        for variant in ("", product.KEYLESS):
            archive(output, variant)
    checksums(output)


def wheel(output: Path, when: str) -> None:
    """Build the wheel, with the project's own build back end."""
    target = ("-t", "wheel", "-d", str(output))
    environment = {**os.environ, "SOURCE_DATE_EPOCH": when}
    command = [sys.executable, "-m", "hatchling", "build", *target]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)


def chart(output: Path) -> None:
    """Package the chart; its version is the operator's."""
    helm = Programs.default().find(("helm",))["helm"]
    own = ("--version", VERSION, "--app-version", VERSION)
    _printed(str(helm), "package", str(CHART), *own, "--destination", str(output))


def crds(output: Path) -> None:
    """Put both CRDs into one file, for those who install them apart."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "crds").glob("*.yaml"))]
    (output / f"copyrator-crds-{VERSION}.yaml").write_text("---\n".join(texts), encoding="utf-8")


def archive(output: Path, variant: str) -> None:
    """Pack a variant of the image as an OCI archive, which podman, skopeo and containerd read."""
    store = Store.default()
    machine.prepare(store.progress)
    revision = _printed("git", "-C", str(ROOT), "rev-parse", "HEAD")
    layout = product.operator(store, revision, variant)
    name = output / f"copyrator-{VERSION}{variant}-{layout.config['architecture']}.oci.tar"
    with tarfile.open(name, "w", format=tarfile.PAX_FORMAT) as packed:
        for path in sorted(layout.root.rglob("*")):
            packed.add(path, str(path.relative_to(layout.root)), False, filter=_plain)


def checksums(output: Path) -> None:
    """Write SHA256SUMS, in the form that `sha256sum --check` reads."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(output.iterdir())
    ]
    (output / "SHA256SUMS").write_text("".join(lines), encoding="ascii")
    for path in sorted(output.iterdir()):
        print(f"{path.stat().st_size / 1e6:8.2f} MB  {path.name}")


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.isdir() else 0o644
    return entry


def _printed(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LocalClusterError(f"{' '.join(command[:3])} …: {done.stderr.strip()}")
    return done.stdout.strip()


if __name__ == "__main__":
    main()
