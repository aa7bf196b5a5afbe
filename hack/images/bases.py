"""Base images made of Debian packages, and the pause image, with no registry to pull from."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from images.layout import Layout
from images.machine import program
from images.store import TIMESTAMP, Store, key_of, run

SUITE = "bookworm"
PACKAGES = ("python3", "ca-certificates")
"""What the operator runs on: no pip, no compiler, no package of -dev."""

_WITH_PIP = """ARG BASE_IMAGE
FROM ${BASE_IMAGE}
RUN apt-get update -qq && apt-get install -qq --no-install-recommends python3-pip >/dev/null
"""
_DEFAULT_MIRROR = "http://deb.debian.org/debian"
# Caches of apt and what no program reads: half of what debootstrap makes.
_DOCUMENTS = ("usr/share/doc", "usr/share/info", "usr/share/locale", "usr/share/man")
_LEFT_OUT = ("var/cache/apt", "var/lib/apt/lists", "var/log", *_DOCUMENTS)


def running_base(store: Store) -> Layout:
    """Debian with Python and CA certificates."""

    def build(layout: Path) -> None:
        tree = layout.parent / "tree"
        mirror = os.environ.get("DEBIAN_MIRROR", _DEFAULT_MIRROR)
        options = ("--variant=minbase", f"--include={','.join(PACKAGES)}")
        command = [program("debootstrap"), *options, SUITE, str(tree), mirror]
        run(command, _administrators_path(), layout.parent)
        for folder in _LEFT_OUT:
            for entry in (tree / folder).iterdir():
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()
        container = store.buildah("from", "scratch")
        store.buildah("copy", "--quiet", container, str(tree), "/")
        _commit(store, container, layout)

    return store.get("base", key_of(SUITE, *PACKAGES, *_LEFT_OUT), build)


def building_base(store: Store) -> Layout:
    """The same with pip, for the Dockerfile's first stage."""
    base = running_base(store)

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


def _commit(store: Store, container: str, layout: Path) -> None:
    store.buildah("commit", "--quiet", "--timestamp", TIMESTAMP, container, f"oci:{layout}")
    store.buildah("rm", container)


def _administrators_path() -> dict[str, str]:
    return {"PATH": f"/usr/sbin:/sbin:{os.environ.get('PATH', os.defpath)}"}
