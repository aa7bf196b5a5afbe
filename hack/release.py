"""Builds a whole release into dist/, or nothing: images, chart, wheel, CRDs, bills of materials.

The version stands in `copyrator.__version__` alone, and where a release comes from in pyproject's
`urls.Repository`; tests hold the chart and the documents to both. The same commit gives the same
wheel, chart and layers, as long as Debian's packages are the same.

`--push` signs and pushes it with the credentials of `docker login`: the images to
REGISTRY/copyrator, the chart to REGISTRY/charts/copyrator. Tags come last, so that nobody pulls
half a release, and a release that is there is never replaced. `--key` signs by a key of cosign
(its password in COSIGN_PASSWORD), `--keyless` by the identity of a CI job.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from gzip import GzipFile
from pathlib import Path
from typing import Any

import copyrator
from images import bases, index, machine, product, sbom
from images.store import Store
from localcluster.build import Programs
from localcluster.errors import LocalClusterError
from localcluster.standin.registry import is_loopback

ROOT = Path(__file__).resolve().parents[1]
CHART = ROOT / "charts" / "copyrator"
VERSION = copyrator.__version__


def _repository() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: str = project["urls"]["Repository"]
    return found


REPOSITORY = _repository()
REGISTRY = f"ghcr.io/{REPOSITORY.split('/')[3].lower()}"
FILES = f"{REPOSITORY}/releases/download/v{VERSION}"
"""Where releases are, as the documents' commands name it."""

_PROVENANCE = f"copyrator-{VERSION}.provenance.json"
_NO_LOG = ("--use-signing-config=false", "--tlog-upload=false")


def main() -> None:
    """Build, say what was made, and push it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "dist", metavar="DIRECTORY")
    parser.add_argument("--registry", default=REGISTRY, metavar="HOST/PATH", help="images, chart")
    parser.add_argument("--files", metavar="URL", help="where dist/ is published")
    parser.add_argument("--push", action="store_true", help="sign and push to --registry")
    signing = parser.add_mutually_exclusive_group()
    signing.add_argument("--key", type=Path, metavar="FILE", help="cosign's private key")
    signing.add_argument("--keyless", action="store_true", help="sign by the CI job's identity")
    options = parser.parse_args()
    if options.push and not (options.key or options.keyless):
        parser.error("--push requires --key FILE or --keyless: a release is signed")
    files = options.files or (FILES if options.registry == REGISTRY else str(options.output))
    try:
        signer = Signer(options.key) if options.key or options.keyless else None
        if options.push:
            refuse_existing(options.registry)
        build(options.output, options.registry, files, signer=signer)
        if options.push:
            push(options.output, options.registry, signer)
    except LocalClusterError as error:
        sys.exit(str(error))


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs by a key without a transparency log; without a key by the CI job's identity, with one.

    Attributes:
        key: cosign's private key.
    """

    key: Path | None

    def run(self, verb: str, *arguments: str, registry: str = "") -> None:
        """Have cosign sign something.

        Raises:
            LocalClusterError: it failed.
        """
        by = ("--key", str(self.key), *_NO_LOG) if self.key else ()
        plain = ("--allow-http-registry",) if _is_local(registry) else ()
        _printed(_program("cosign3"), verb, "--yes", *by, *plain, *arguments)

    def public_key(self) -> str | None:
        """What its signatures are verified with; None where that is an identity."""
        if self.key is None:
            return None
        return _printed(_program("cosign3"), "public-key", "--key", str(self.key))


def build(
    output: Path,
    registry: str,
    files: str,
    *,
    image: bool = True,
    signer: Signer | None = None,
) -> None:
    """Build into `output`, which is emptied before.

    Args:
        output: the directory.
        registry: from where images and chart are pulled.
        files: the URL under which the directory is published.
        image: also the images; without them the chart pulls by tag, and nothing can be pushed but
            the chart.
        signer: signs the checksums.

    Raises:
        LocalClusterError: a tool is missing, or failed.
    """
    public_key = signer.public_key() if signer else None  # fails before all else
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    # What else would be the time of the build becomes the time of the commit.
    when = int(_printed("git", "-C", str(ROOT), "log", "-1", "--format=%ct"))
    wheel(output, when)
    digests = images(output, datetime.fromtimestamp(when, UTC)) if image else {}
    chart(output, registry, digests)
    crds(output)
    (output / _PROVENANCE).write_text(json.dumps(provenance(registry), indent=1), encoding="utf-8")
    if public_key:
        (output / "cosign.pub").write_text(f"{public_key}\n", encoding="ascii")
    install_notes(output, registry, files, digests)
    checksums(output)
    if signer:
        bundle = output / "SHA256SUMS.sigstore.json"
        signer.run("sign-blob", "--bundle", str(bundle), str(output / "SHA256SUMS"))


def images(output: Path, made: datetime) -> dict[str, str]:
    """Pack each variant of the image, for each architecture, with its bill of materials.

    Returns:
        The digest of each variant.
    """
    store = Store.default()
    machine.prepare(store.progress)
    digests = {}
    for variant in product.VARIANTS:
        built = [product.operator(store, variant, one) for one in bases.ARCHITECTURES]
        digest = index.write(_archive(output, variant), built)
        bill = sbom.of(built, digest, made)
        _bill(output, variant).write_text(bill, encoding="utf-8")
        digests[variant] = digest
    return digests


def refuse_existing(registry: str) -> None:
    """Have nothing built and pushed that is there.

    Raises:
        LocalClusterError: the registry has this release, or can't be asked.
    """
    plain = ("--tls-verify=false",) if _is_local(registry) else ()
    for repository in ("copyrator", "charts/copyrator"):
        reference = f"{registry}/{repository}:{VERSION}"
        command = [_skopeo(), "inspect", "--raw", *plain, f"docker://{reference}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            raise LocalClusterError(
                f"{reference} is there already.", "Raise the version: a release isn't replaced."
            )
        if not re.search("manifest unknown|name unknown", done.stderr):
            said = done.stderr.strip()[-300:]
            raise LocalClusterError(f"{reference} can't be looked up: {said}")


def push(output: Path, registry: str, signer: Signer | None) -> None:
    """Sign and push what was built: the images, then their tags, then the chart.

    Without images and signer, as tests do, the chart alone.

    Raises:
        LocalClusterError: a tool is missing, or the registry refused.
    """
    repository = f"{registry}/copyrator"
    built = [one for one in product.VARIANTS if _archive(output, one).exists()]
    tagged = {variant: f"{repository}:{VERSION}{product.suffix(variant)}" for variant in built}
    digests = {}
    for variant in built:
        archive = _archive(output, variant)
        digests[variant] = digest = _digest(archive)
        _copy(f"oci-archive:{archive}", f"docker://{repository}@{digest}", registry)
        if signer:
            reference = f"{repository}@{digest}"
            signer.run("sign", reference, registry=registry)
            for kind, file in (
                ("cyclonedx", _bill(output, variant)),
                ("slsaprovenance1", output / _PROVENANCE),
            ):
                predicate = ("--type", kind, "--predicate", str(file))
                signer.run("attest", *predicate, reference, registry=registry)
    for variant, reference in tagged.items():
        source = f"docker://{repository}@{digests[variant]}"
        _copy(source, f"docker://{reference}", registry)
    plain = ("--plain-http",) if _is_local(registry) else ()
    package = (str(output / f"copyrator-{VERSION}.tgz"), f"oci://{registry}/charts")
    said = _printed(_program("helm"), "push", *package, *plain, both=True)
    if signer:
        digest = re.findall(r"^Digest: (\S+)$", said, re.MULTILINE)[0]
        signer.run("sign", f"{registry}/charts/copyrator@{digest}", registry=registry)
    for variant, digest in digests.items():
        print(f"{tagged[variant]}@{digest}")
    print(f"{registry}/charts/copyrator:{VERSION}")


def wheel(output: Path, when: int) -> None:
    """Build the wheel, with the project's own build back end."""
    target = ("-t", "wheel", "-d", str(output))
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(when)}
    command = [sys.executable, "-m", "hatchling", "build", *target]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)


def chart(output: Path, registry: str, digests: Mapping[str, str]) -> None:
    """Package the chart: the operator's version, the images of `registry` by their digests."""
    own = ("--version", VERSION, "--app-version", VERSION)
    image = {"repository": f"{registry}/copyrator"} | {
        f"digests.{variant}": digest for variant, digest in digests.items()
    }
    with tempfile.TemporaryDirectory() as directory:
        source = shutil.copytree(CHART, Path(directory) / "copyrator")
        values = source / "values.yaml"
        values.write_text(_with_image(values.read_text(encoding="utf-8"), image), encoding="utf-8")
        _printed(_program("helm"), "package", str(source), *own, "--destination", directory)
        package = f"copyrator-{VERSION}.tgz"
        with (
            tarfile.open(Path(directory) / package) as made,
            (output / package).open("wb") as target,
            GzipFile("", "wb", 9, target, 0) as zipped,
            tarfile.open(fileobj=zipped, mode="w") as packed,
        ):
            for entry in made:
                content = made.extractfile(entry)
                entry.mtime = 0  # helm writes the time of the build
                packed.addfile(entry, content)


def provenance(registry: str) -> dict[str, Any]:
    """What the images were made from and by whom: SLSA's predicate, version 1."""
    recipe = builder = f"{REPOSITORY}/blob/main/hack/release.py"
    if workflow := os.environ.get("GITHUB_WORKFLOW_REF"):
        builder = f"{os.environ['GITHUB_SERVER_URL']}/{workflow}"
    return {
        "buildDefinition": {
            "buildType": recipe,
            "externalParameters": {"version": VERSION, "registry": registry},
            "resolvedDependencies": [
                {"uri": f"git+{REPOSITORY}@v{VERSION}", "digest": {"gitCommit": product.revision()}}
            ],
        },
        "runDetails": {"builder": {"id": builder}},
    }


def install_notes(output: Path, registry: str, files: str, digests: Mapping[str, str]) -> None:
    """Write the README's commands, and those that verify the release."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition("\n## Install\n")[2].partition("\n## ")[0]
    commands = re.findall(r"^```sh\n.*?^```\n", section, re.MULTILINE | re.DOTALL)[0]
    commands = commands.replace(REGISTRY, registry).replace(FILES, files)
    notes = [f"## Install\n\n{commands}"]
    if (output / "cosign.pub").exists():
        by = ["--key cosign.pub"]
    else:
        workflow = f"{REPOSITORY}/.github/workflows/release.yaml@refs/tags/v{VERSION}"
        issuer = "https://token.actions.githubusercontent.com"
        by = [f"--issuer {issuer}", f"--subject-pattern '{re.escape(workflow)}'"]
    plain = " --insecure" if _is_local(registry) else ""
    verified = [
        f"copyrator verify {registry}/copyrator@{digest}{plain} {' '.join(by)}"
        for digest in digests.values()
    ]
    if verified:
        lines = "\n".join(["sha256sum --check --ignore-missing SHA256SUMS", *verified])
        notes.append(f"## Verify\n\n```sh\n{lines}\n```\n")
    (output / "INSTALL.md").write_text("\n".join(notes), encoding="utf-8")


def crds(output: Path) -> None:
    """Put both CRDs into one file, for those who install them apart."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "crds").glob("*.yaml"))]
    (output / f"copyrator-crds-{VERSION}.yaml").write_text("---\n".join(texts), encoding="utf-8")


def checksums(output: Path) -> None:
    """Write SHA256SUMS, in the form that `sha256sum --check` reads."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(output.iterdir())
    ]
    (output / "SHA256SUMS").write_text("".join(lines), encoding="ascii")
    for path in sorted(output.iterdir()):
        print(f"{path.stat().st_size / 1e6:8.2f} MB  {path.name}")


def _with_image(values: str, image: Mapping[str, str]) -> str:
    """The chart's values with these of its image; comments stay."""
    head, begin, rest = values.partition("\nimage:\n")
    section, end, rest = rest.partition("\n# ")
    for path, value in image.items():
        name = path.rpartition(".")[2]
        section, count = re.subn(rf'(?m)^( +{name}:) ""$', rf"\g<1> {value}", section)
        assert count == 1, f"values.yaml has no empty image.{path}"
    return head + begin + section + end + rest


def _archive(output: Path, variant: str) -> Path:
    return output / f"copyrator-{VERSION}{product.suffix(variant)}.oci.tar"


def _bill(output: Path, variant: str) -> Path:
    return output / f"copyrator-{VERSION}{product.suffix(variant)}.cdx.json"


def _digest(archive: Path) -> str:
    said = _printed("tar", "--extract", "--to-stdout", "--file", str(archive), "index.json")
    digest: str = json.loads(said)["manifests"][0]["digest"]
    return digest


def _copy(source: str, to: str, registry: str) -> None:
    local = _is_local(registry)
    options = ("--src-tls-verify=false", "--dest-tls-verify=false") if local else ()
    _printed(_skopeo(), "copy", "--all", "--preserve-digests", *options, source, to)


def _skopeo() -> str:
    if machine.find("skopeo") is None:
        machine.install({"skopeo"}, Store.default().progress)
    return machine.program("skopeo")


def _is_local(registry: str) -> bool:
    return is_loopback(registry.partition("/")[0])


def _program(name: str) -> str:
    return str(Programs.default().find((name,))[name])


def _printed(*command: str, both: bool = False) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        named = " ".join(command[:3])
        raise LocalClusterError(f"{named} …: exit code {done.returncode}: {done.stderr.strip()}")
    return (done.stdout + done.stderr * both).strip()


if __name__ == "__main__":
    main()
