"""Builds everything of a release into dist/: wheel, image, chart, CRDs and their checksums.

The version stands in `copyrator.__version__` alone; tests hold the chart to it. The same commit
gives the same bytes. `--no-image` leaves the image out, for machines without root or Debian.

With `--registry`, the chart pulls the image from there, and INSTALL.md has the README's commands
for that release. `--push` pushes both, with the credentials of `docker login`: the chart to
REGISTRY/charts/copyrator, the image as it is in dist/ to REGISTRY/copyrator.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import copyrator
from images import machine, product
from images.store import Store
from localcluster.build import Programs
from localcluster.errors import LocalClusterError
from localcluster.progress import Progress
from localcluster.standin.registry import is_loopback

ROOT = Path(__file__).resolve().parents[1]
CHART = ROOT / "charts" / "copyrator"
VERSION = copyrator.__version__
REGISTRY = "ghcr.io/OWNER"
FILES = f"https://github.com/OWNER/copyrator/releases/download/v{VERSION}"
"""What the README's commands name, where OWNER stands for who publishes the release."""


def main() -> None:
    """Build and say what was made."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-image", action="store_true", help="leave the image out")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", metavar="DIRECTORY")
    parser.add_argument("--registry", metavar="HOST/PATH", help="for image and chart")
    parser.add_argument("--files", metavar="URL", help="where dist/ is published")
    parser.add_argument("--push", action="store_true", help="push image and chart to --registry")
    options = parser.parse_args()
    if options.push and not options.registry:
        parser.error("--push requires --registry")
    try:
        build(options.output, options.registry, options.files, image=not options.no_image)
        if options.push:
            push(options.output, options.registry)
    except LocalClusterError as error:
        sys.exit(str(error))


def build(
    output: Path, registry: str | None = None, files: str | None = None, *, image: bool
) -> None:
    """Build into `output`, which is emptied before.

    Args:
        output: the directory.
        registry: from where image and chart are pulled.
        files: the URL under which the directory is published; default: its own path.
        image: also the image.

    Raises:
        LocalClusterError: a tool is missing, or failed.
    """
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    # What else would be the time of the build becomes the time of the commit.
    when = _printed("git", "-C", str(ROOT), "log", "-1", "--format=%ct")
    wheel(output, when)
    chart(output, registry)
    crds(output)
    if registry:
        install_notes(output, registry, files or str(output))
    if image:
        for variant in product.VARIANTS:
            archive(output, variant)
    checksums(output)


def push(output: Path, registry: str) -> None:
    """Push the chart, and the images that were built.

    Raises:
        LocalClusterError: a tool is missing, or the registry refused.
    """
    local = is_loopback(registry.partition("/")[0])
    package = str(output / f"copyrator-{VERSION}.tgz")
    plain = ("--plain-http",) if local else ()
    helm = Programs.default().find(("helm",))["helm"]
    _run(str(helm), "push", package, f"oci://{registry}/charts", *plain)
    insecure = ("--dest-tls-verify=false",) if local else ()
    for path in sorted(output.glob("*.oci.tar")):
        machine.install({"skopeo"} if machine.find("skopeo") is None else (), Progress.on_stderr())
        named = [one for one in product.VARIANTS if f"{VERSION}{one}-" in path.name]
        variant = max(named, key=len)
        to = (f"oci-archive:{path}", f"docker://{registry}/copyrator:{VERSION}{variant}")
        _run(machine.program("skopeo"), "copy", "--preserve-digests", *insecure, *to)


def wheel(output: Path, when: str) -> None:
    """Build the wheel, with the project's own build back end."""
    target = ("-t", "wheel", "-d", str(output))
    environment = {**os.environ, "SOURCE_DATE_EPOCH": when}
    command = [sys.executable, "-m", "hatchling", "build", *target]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)


def chart(output: Path, registry: str | None) -> None:
    """Package the chart, whose version is the operator's and whose image is that of `registry`."""
    helm = Programs.default().find(("helm",))["helm"]
    own = ("--version", VERSION, "--app-version", VERSION)
    with tempfile.TemporaryDirectory() as directory:
        source = shutil.copytree(CHART, Path(directory) / "copyrator")
        if registry:
            values = source / "values.yaml"
            text = values.read_text(encoding="utf-8")
            default = r"(?m)^(image:\n +#.*\n +repository: )\"\"$"
            text, count = re.subn(default, rf"\g<1>{registry}/copyrator", text)
            assert count == 1, "values.yaml begins its image otherwise"
            values.write_text(text, encoding="utf-8")
        _printed(str(helm), "package", str(source), *own, "--destination", str(output))


def install_notes(output: Path, registry: str, files: str) -> None:
    """Write the README's commands, for this release."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition("\n## Install\n")[2].partition("\n## ")[0]
    commands = re.findall(r"^```sh\n.*?^```\n", section, re.MULTILINE | re.DOTALL)[0]
    commands = commands.replace(REGISTRY, registry).replace(FILES, files)
    (output / "INSTALL.md").write_text(f"## Install\n\n{commands}", encoding="utf-8")


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


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False)
    if done.returncode != 0:
        raise LocalClusterError(f"{' '.join(command[:2])} …: exit code {done.returncode}")


def _printed(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LocalClusterError(f"{' '.join(command[:3])} …: {done.stderr.strip()}")
    return done.stdout.strip()


if __name__ == "__main__":
    main()
