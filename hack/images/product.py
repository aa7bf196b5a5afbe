"""The operator's image from the Dockerfile, and an image with the stand-in for werf."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import yaml

import copyrator
from images.bases import building_base, debian_base, native, runtime_base
from images.layout import Layout
from images.store import Store, key_of
from localcluster.build import Programs

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "Dockerfile"
# What the Dockerfile copies; .dockerignore lets nothing else through, and a test compares.
SOURCES = (
    "requirements.lock",
    "requirements-keyless.lock",
    "requirements-clouds.lock",
    "LICENSE",
    "operator/copyrator",
    "hack/images/trim.py",
)
PLAIN, KEYLESS, CLOUDS = VARIANTS = ("plain", "keyless", "clouds")
"""What the chart's `image.variant` calls them; the last has all that the second has."""


def suffix(variant: str) -> str:
    """What the variant's tag ends with."""
    return "" if variant == PLAIN else f"-{variant}"


_STANDIN = ROOT / "hack" / "localcluster" / "standin"

# How pip on this machine reaches PyPI; what names a file is mounted.
_PIP_VARIABLES = ("PIP_INDEX_URL",)

_WERF = """ARG BASE_IMAGE
FROM ${BASE_IMAGE}
COPY werf /opt/werf
ENV PATH=/opt/werf/standin:/opt/werf:/usr/bin:/bin HOME=/home/build
USER 1000:1000
"""


def revision() -> str:
    """The commit of the sources, with ``-dirty`` where they differ from it."""
    command = [
        "git",
        "-C",
        str(ROOT),
        "describe",
        "--always",
        "--abbrev=40",
        "--exclude=*",
        "--dirty",
    ]
    return subprocess.check_output(command, text=True).strip()


def operator(store: Store, variant: str = PLAIN, architecture: str | None = None) -> Layout:
    """The operator's image, on bases of Debian packages.

    Args:
        store: where it is looked for, and put.
        variant: one of VARIANTS.
        architecture: one of bases.ARCHITECTURES; default: this machine's.

    Raises:
        BuildFailedError: a step of the Dockerfile failed.
    """
    architecture = architecture or native()
    base, building = runtime_base(store, architecture), building_base(store)
    sources = [ROOT / source for source in SOURCES]
    commit = revision()
    chosen = (commit, variant, architecture, base.digest, building.digest)
    key = key_of(DOCKERFILE, ROOT / ".dockerignore", *sources, *chosen)
    arguments = {"VERSION": copyrator.__version__, "REVISION": commit, "VARIANT": suffix(variant)}
    arguments |= {"BUILDPLATFORM": f"linux/{native()}", "TARGETARCH": architecture}
    arguments |= {name: os.environ[name] for name in _PIP_VARIABLES if os.environ.get(name)}
    volumes = []
    if certificate := os.environ.get("PIP_CERT"):
        volumes = ["--volume", f"{Path(certificate).resolve()}:/ca.pem:ro"]
        arguments["PIP_CERT"] = "/ca.pem"

    def build(layout: Path) -> None:
        arguments.update(BASE_IMAGE=store.image(base), BUILD_IMAGE=store.image(building))
        options = ["--arch", architecture, *volumes, *_as_options(arguments)]
        store.bud(ROOT, DOCKERFILE, options, layout)

    return store.get(f"operator-{variant}-{architecture}", key, build)


def werf(store: Store) -> Layout:
    """An image that carries `werf`: the one that WERF names, or the stand-in with helm and kubectl.

    Raises:
        BuildFailedError: it can't be built.
    """
    base = debian_base(store)
    chosen = os.environ.get("WERF")
    tools = Programs.default().find(("helm", "kubectl"))
    real = [Path(chosen)] if chosen else []
    key = key_of(
        _WERF,
        _STANDIN,
        *real,
        *(path.parent.name for path in tools.values()),
        base.digest,
        yaml.__version__,
    )

    def build(layout: Path) -> None:
        with tempfile.TemporaryDirectory() as directory:
            context = Path(directory)
            (context / "Dockerfile").write_text(_WERF, encoding="utf-8")
            home = context / "werf"
            home.mkdir()
            if real:
                shutil.copy(real[0], home / "werf")
            else:
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(_STANDIN, home / "standin", ignore=ignored)
                library = shutil.ignore_patterns("__pycache__", "*.so")  # it is for this Python
                shutil.copytree(Path(yaml.__file__).parent, home / "yaml", ignore=library)
            for name, path in tools.items():
                shutil.copy(path, home / name)
            arguments = _as_options({"BASE_IMAGE": store.image(base)})
            store.bud(context, context / "Dockerfile", arguments, layout)

    return store.get("werf", key, build)


def _as_options(arguments: dict[str, str]) -> list[str]:
    return [
        part for name, value in arguments.items() for part in ("--build-arg", f"{name}={value}")
    ]
