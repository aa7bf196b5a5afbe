"""What has to be installed on the machine, and installs it where that can be done unasked."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path

from localcluster.errors import LocalClusterError
from localcluster.progress import Progress

PACKAGES = {
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "busybox": "busybox-static",
    "containerd": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "nsenter": "util-linux",
}
"""The Debian package of each program."""

_BINARIES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class UnsuitableMachineError(LocalClusterError):
    """Images can't be built, or containers not be run, on a machine like this."""


def program(name: str) -> str:
    """The path of a program, also where the user's PATH lacks the administrator's directories.

    Raises:
        UnsuitableMachineError: it isn't installed.
    """
    found = find(name)
    if found is None:
        raise UnsuitableMachineError(
            f"{name} is not installed.", f"apt-get install {PACKAGES.get(name, name)}"
        )
    return found


def prepare(progress: Progress) -> None:
    """Install what is missing.

    Raises:
        UnsuitableMachineError: this isn't Debian, or we aren't root.
        LocalClusterError: apt failed.
    """
    if os.geteuid() != 0:
        raise UnsuitableMachineError("Containers need root here, and this isn't.", "Run as root.")
    install({PACKAGES[name] for name in PACKAGES if _is_missing(name)}, progress)


def install(packages: Collection[str], progress: Progress) -> None:
    """Install Debian packages, if there are any.

    Raises:
        UnsuitableMachineError: this isn't Debian, or we aren't root.
        LocalClusterError: apt failed.
    """
    missing = sorted(packages)
    if not Path("/etc/debian_version").exists() or find("apt-get") is None:
        raise UnsuitableMachineError(
            "Packages are only known for Debian and its like.", "Use Debian 12 or later."
        )
    if not missing:
        return
    if os.geteuid() != 0:
        raise UnsuitableMachineError(
            f"{', '.join(missing)} can only be installed by root.",
            f"As root: apt-get install {' '.join(missing)}",
        )
    progress.line(f"Installing with apt-get: {', '.join(missing)}")
    _apt_get("update")
    _apt_get("install", "--yes", "--no-install-recommends", *missing)


def _apt_get(*arguments: str) -> None:
    done = subprocess.run(
        ["apt-get", "--quiet", *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        end = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise LocalClusterError(
            f"apt-get {' '.join(arguments)} failed:\n{end}",
            "Install these packages by hand, then start again.",
        )


def _is_missing(name: str) -> bool:
    """Whether a program isn't there, or is a busybox that needs libraries.

    That runs alone in the pause image; Debian's package busybox is the other one.
    """
    found = find(name)
    return found is None or (name == "busybox" and b"/ld-linux" in Path(found).read_bytes()[:4096])


def find(name: str) -> str | None:
    """The path of a program; None where it isn't installed."""
    return shutil.which(name) or shutil.which(name, path=_BINARIES)
