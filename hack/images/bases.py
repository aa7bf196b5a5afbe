"""Base images made of Debian packages, and the pause image, with no registry to pull from."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from images.layout import Layout
from images.machine import program
from images.store import TIMESTAMP, Store, key_of, run

SUITE = "trixie"
PYTHON = "python3.13"
"""Debian's Python of that suite."""
RUNTIME = (
    *("base-files", "ca-certificates", "media-types"),
    *("libc6", "libgcc-s1", "libstdc++6"),
    *("libbz2-1.0", "libexpat1", "libffi8", "liblzma5", "libssl3t64", "libuuid1", "libzstd1"),
    *("zlib1g", f"lib{PYTHON}-minimal", f"lib{PYTHON}-stdlib", f"{PYTHON}-minimal"),
    "python3-minimal",
)
"""What the operator runs on and what that depends on: no shell, package manager or compiler."""
ARCHITECTURES = ("amd64", "arm64")
"""Those of the operator's image, as Debian and OCI call them."""

_PACKAGES = ("python3", "ca-certificates")
_WITH_PIP = """ARG BASE_IMAGE
FROM ${BASE_IMAGE}
RUN apt-get update -qq && apt-get install -qq --no-install-recommends python3-pip >/dev/null
"""
_DEFAULT_MIRROR = "http://deb.debian.org/debian"
_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# What no program reads: half of what debootstrap makes.
_DOCUMENTS = ("usr/share/doc", "usr/share/info", "usr/share/locale", "usr/share/man")
_CACHES = ("var/cache/apt", "var/lib/apt/lists", "var/log")
# Character sets that Python brings itself, and its own tests.
_UNUSED = ("usr/lib/*/gconv", f"usr/lib/{PYTHON}/test", f"usr/lib/{PYTHON}/pydoc_data")
_USERS = {
    "etc/passwd": "root:x:0:0:root:/root:/sbin/nologin\n"
    "nonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n",
    "etc/group": "root:x:0:\nnonroot:x:65532:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
"""What scripts of packages would write."""
_COMPILE = ("-B", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash")
"""-B: what it imports itself would be compiled with the times and the folder of the build."""


def native() -> str:
    """This machine's architecture."""
    return subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()


def runtime_base(store: Store, architecture: str) -> Layout:
    """What the operator runs on: packages unpacked, whose scripts don't run.

    So it can be made for another architecture than the machine's.

    Args:
        store: where it is looked for, and put.
        architecture: one of ARCHITECTURES.

    Raises:
        BuildFailedError: the packages can't be had.
    """

    def build(layout: Path) -> None:
        tree = layout.parent / "tree"
        _unpack(layout.parent / "packages", architecture, tree)
        for path, text in _USERS.items():
            (tree / path).write_text(text, encoding="ascii")
        (tree / "tmp").mkdir(exist_ok=True)
        (tree / "tmp").chmod(0o1777)
        _bundle_certificates(tree)
        for pattern in (*_DOCUMENTS, *_UNUSED):
            for folder in tree.glob(pattern):
                shutil.rmtree(folder)
        _compile(tree, architecture, layout.parent)
        container = store.buildah("from", "--arch", architecture, "scratch")
        store.buildah("config", "--arch", architecture, container)
        store.buildah("copy", "--quiet", container, str(tree), "/")
        _commit(store, container, layout)

    parts = (SUITE, *RUNTIME, *_DOCUMENTS, *_UNUSED, *_USERS.values(), *_COMPILE)
    return store.get(f"runtime-{architecture}", key_of(*parts), build)


def debian_base(store: Store) -> Layout:
    """Debian with Python, a shell and apt, of this machine's architecture."""

    def build(layout: Path) -> None:
        tree = layout.parent / "tree"
        mirror = os.environ.get("DEBIAN_MIRROR", _DEFAULT_MIRROR)
        options = ("--variant=minbase", f"--include={','.join(_PACKAGES)}")
        command = [program("debootstrap"), *options, SUITE, str(tree), mirror]
        run(command, _administrators_path(), layout.parent)
        for folder in (*_CACHES, *_DOCUMENTS):
            for entry in (tree / folder).iterdir():
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()
        container = store.buildah("from", "scratch")
        store.buildah("copy", "--quiet", container, str(tree), "/")
        _commit(store, container, layout)

    return store.get("base", key_of(SUITE, *_PACKAGES, *_CACHES, *_DOCUMENTS), build)


def building_base(store: Store) -> Layout:
    """The same with pip, for the Dockerfile's first stage."""
    base = debian_base(store)

    def build(layout: Path) -> None:
        recipe = layout.parent / "Dockerfile"
        recipe.write_text(_WITH_PIP, encoding="utf-8")
        store.bud(layout.parent, recipe, ("--build-arg", f"BASE_IMAGE={store.image(base)}"), layout)

    return store.get("build-base", key_of(_WITH_PIP, base.digest), build)


def pause(store: Store) -> Layout:
    """What holds a pod's namespaces: a busybox that sleeps."""
    busybox = Path(program("busybox"))

    def build(layout: Path) -> None:
        container = store.buildah("from", "scratch")
        store.buildah("copy", "--quiet", container, str(busybox), "/busybox")
        entry = '["/busybox", "sleep", "2147483647"]'
        store.buildah("config", "--entrypoint", entry, "--user", "65535:65535", container)
        _commit(store, container, layout)

    return store.get("pause", key_of(busybox), build)


def _unpack(directory: Path, architecture: str, tree: Path) -> None:
    """Download the packages as Debian's keys sign them, and unpack them.

    Each is described in ``var/lib/dpkg/status.d``, where scanners look in images without dpkg.
    """
    mirror = os.environ.get("DEBIAN_MIRROR", _DEFAULT_MIRROR)
    for folder in ("lists/partial", "cache/archives/partial", "debs"):
        (directory / folder).mkdir(parents=True)
    (directory / "status").touch()
    suites = ((mirror, SUITE), (f"{mirror}-security", f"{SUITE}-security"))
    (directory / "sources.list").write_text(
        "".join(f"deb [signed-by={_KEYS}] {where} {suite} main\n" for where, suite in suites),
        encoding="ascii",
    )
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "root",
        "Dir::Etc::SourceList": directory / "sources.list",
        "Dir::Etc::SourceParts": "-",
        "Dir::State::Lists": directory / "lists",
        "Dir::State::status": directory / "status",
        "Dir::Cache": directory / "cache",
    }
    options = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
    run(["apt-get", "-qq", *options, "update"], {}, directory)
    run(["apt-get", "-qq", *options, "download", *RUNTIME], {}, directory / "debs")
    described = tree / "var/lib/dpkg/status.d"
    described.mkdir(parents=True)
    for package in sorted((directory / "debs").glob("*.deb")):
        run(["dpkg-deb", "--extract", str(package), str(tree)], {}, directory)
        name = package.name.partition("_")[0]
        fields = run(["dpkg-deb", "--field", str(package)], {}, directory)
        (described / name).write_text(f"{fields}\n", encoding="utf-8")


def _bundle_certificates(tree: Path) -> None:
    """Write the file that update-ca-certificates would."""
    certificates = sorted((tree / "usr/share/ca-certificates").rglob("*.crt"))
    bundle = "".join(one.read_text(encoding="ascii") for one in certificates)
    (tree / "etc/ssl/certs").mkdir(parents=True, exist_ok=True)
    (tree / "etc/ssl/certs/ca-certificates.crt").write_text(bundle, encoding="ascii")


def _compile(tree: Path, architecture: str, directory: Path) -> None:
    """Compile Python's library: a read-only root can't keep what a start compiles.

    By the same Python of this machine's architecture, which loads its libraries from its own tree.
    """
    python = tree
    if architecture != native():
        python = directory / "native"
        _unpack(directory / "native-packages", native(), python)
    (loader,) = python.glob("usr/lib/*/ld-linux-*.so.*")
    command = [str(loader), "--library-path", str(loader.parent), str(python / "usr/bin" / PYTHON)]
    places = ["-s", str(tree), "-p", "/", str(tree / "usr/lib" / PYTHON)]
    run([*command, *_COMPILE, *places], {"PYTHONHOME": str(python / "usr")}, tree)


def _commit(store: Store, container: str, layout: Path) -> None:
    store.buildah("commit", "--quiet", "--timestamp", TIMESTAMP, container, f"oci:{layout}")
    store.buildah("rm", container)


def _administrators_path() -> dict[str, str]:
    return {"PATH": f"/usr/sbin:/sbin:{os.environ.get('PATH', os.defpath)}"}
