"""Official builds of the pinned versions, downloaded where COPYRATOR_DOWNLOAD asks for it.

What goes wrong is said in one line, and the programs are compiled instead. A file is known by its
checksum in go/SHA256SUMS, so nobody between it and us can change it.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from localcluster import pins
from localcluster.locks import file_lock
from localcluster.pins import Module, go_platform
from localcluster.progress import Progress, duration

DOWNLOAD_VARIABLE = "COPYRATOR_DOWNLOAD"
# A base URL to which a file's host and path are appended, for networks without the Internet.
MIRROR_VARIABLE = "COPYRATOR_MIRROR"

_STALL_SECONDS = 20.0
"""For a connection, and between two pieces of an answer."""
_FILE_BYTES = 256 * 2**20
_PIECE_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class Release:
    """Where a publisher has the files of a release.

    Filled in are `{version}`, `{number}` (the version without v), `{arch}` and `{program}`.

    Attributes:
        url: an archive, or the program itself.
        member: the program's path in the archive; empty where the file is the program.
    """

    url: str
    member: str = ""


RELEASES = {
    # The archive has each server twice, the second time in an image.
    "k8s.io/kubernetes": Release("https://dl.k8s.io/release/{version}/bin/linux/{arch}/{program}"),
    "go.etcd.io/etcd/server/v3": Release(
        "https://github.com/etcd-io/etcd/releases/download/{version}"
        "/etcd-{version}-linux-{arch}.tar.gz",
        "etcd-{version}-linux-{arch}/etcd",
    ),
    "github.com/distribution/distribution/v3": Release(
        "https://github.com/distribution/distribution/releases/download/{version}"
        "/registry_{number}_linux_{arch}.tar.gz",
        "registry",
    ),
    "helm.sh/helm/v3": Release(
        "https://get.helm.sh/helm-{version}-linux-{arch}.tar.gz", "linux-{arch}/helm"
    ),
}
"""By the upstream module that the programs are compiled from."""


class DownloadFailedError(Exception):
    """Why a program isn't had, in one line."""


@dataclass(frozen=True, slots=True)
class Downloads:
    """Official builds in the cache, and how they get there.

    Attributes:
        cache: the cache directory.
        progress: where progress lines go.
    """

    cache: Path
    progress: Progress

    def find(self, module: Module, programs: Sequence[str]) -> dict[str, Path]:
        """The official builds of programs of one upstream, downloaded if that was asked for.

        Empty where they are to be compiled: all of them, as they share nearly all packages. What
        was downloaded is used from then on, also where that isn't asked for again.
        """
        upstream, version = module.upstream(programs[0]), module.version_of(programs[0])
        release = RELEASES.get(upstream)
        if release is None:
            return {}
        files = [_File.of(release, module, program) for program in programs]
        found = {file.program: self.cache / "bin" / file.key() / file.program for file in files}
        if all(path.exists() for path in found.values()):
            return found
        if os.environ.get(DOWNLOAD_VARIABLE, "") in ("", "0"):
            return {}

        def waiting(seconds: float) -> None:
            self.progress.tick(f"another run is downloading {programs[0]}", seconds)

        lock = self.cache / "locks" / f"{upstream.replace('/', '-')}-{version}-release.lock"
        with file_lock(lock, waiting):
            try:
                self._download([file for file in files if not found[file.program].exists()])
            except (DownloadFailedError, OSError) as error:
                what = f"{', '.join(programs)} {version}"
                why = _printable(error)
                self.progress.line(f"{what} can't be downloaded and will be compiled: {why}")
                return {}
        return found

    def _download(self, files: Sequence[_File]) -> None:
        if not files:
            return
        programs = self.cache / "bin"
        programs.mkdir(parents=True, exist_ok=True)
        prefix = f".download-{files[0].key()}-"
        # The lock is ours: these are of runs that were killed.
        for leftover in programs.glob(f"{prefix}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=programs, prefix=prefix) as directory:
            for file in files:
                self._get_program(file, Path(directory) / file.program)
            for file in files:
                (programs / file.key()).mkdir(exist_ok=True)
                (Path(directory) / file.program).rename(programs / file.key() / file.program)

    def _get_program(self, file: _File, draft: Path) -> None:
        if file.pinned is None:
            raise DownloadFailedError(f"go/SHA256SUMS has no line for {file.url}")
        began = time.monotonic()
        found = hashlib.sha256()
        fetched = draft.with_name(f"{draft.name}.fetched")
        done = 0
        what = f"downloading {file.program} {file.version}"
        source = _source(file.url)
        try:
            with (
                urllib.request.build_opener().open(source, timeout=_STALL_SECONDS) as answer,
                fetched.open("wb") as sink,
            ):
                size = int(answer.length or 0)
                # read() would wait for all of a piece, however slowly it comes.
                while piece := answer.read1(_PIECE_BYTES):
                    sink.write(piece)
                    found.update(piece)
                    done += len(piece)
                    if done > _FILE_BYTES:
                        raise DownloadFailedError(f"{source}: over {_FILE_BYTES >> 20} MB")
                    of = f" of {size >> 20}" if size else ""
                    self.progress.tick(f"{what}: {done >> 20}{of} MB", time.monotonic() - began)
        except urllib.error.HTTPError as error:
            with error:
                raise DownloadFailedError(f"{source}: status {error.code}") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            # ValueError: it is redirected to what is no URL.
            raise DownloadFailedError(f"{source}: {error}") from error
        if found.hexdigest() != file.pinned:
            raise DownloadFailedError(
                f"{file.url} has the SHA-256 {found.hexdigest()} in {done} bytes, "
                f"not {file.pinned} of go/SHA256SUMS"
            )
        if file.member:
            try:
                with tarfile.open(fetched) as entries, draft.open("wb") as sink:
                    content = entries.extractfile(file.member)
                    assert content is not None
                    shutil.copyfileobj(content, sink)
            except (tarfile.TarError, KeyError) as error:
                raise DownloadFailedError(f"{file.url} has no file {file.member}") from error
        else:
            fetched.rename(draft)
        draft.chmod(0o755)
        self.progress.line(f"[{duration(time.monotonic() - began)}] {what}: done")


@dataclass(frozen=True, slots=True)
class _File:
    """What is downloaded for one program, see `Release`; `pinned` is its SHA-256, if known here."""

    program: str
    version: str
    url: str
    member: str
    pinned: str | None

    @classmethod
    def of(cls, release: Release, module: Module, program: str) -> _File:
        version = module.version_of(program)
        names = {
            "version": version,
            "number": version.lstrip("v"),
            "arch": go_platform().split("/")[1],
            "program": program,
        }
        url = release.url.format(**names)
        lines = (pins.GO_DIR / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
        sums = {name: checksum for checksum, _, name in (line.partition("  ") for line in lines)}
        pinned = sums.get(url.removeprefix("https://"))
        return cls(program, version, url, release.member.format(**names), pinned)

    def key(self) -> str:
        """A name for the program that changes with where it is from and with its checksum."""
        digest = hashlib.sha256(f"{self.url} {self.pinned}".encode()).hexdigest()
        return f"{self.program}-{self.version}-release-{digest[:16]}"


def _source(url: str) -> str:
    """Where a file is had: from its publisher or from the mirror.

    Raises:
        DownloadFailedError: the mirror isn't an https URL.
    """
    mirror = os.environ.get(MIRROR_VARIABLE)
    if not mirror:
        return url
    if not mirror.startswith("https://") or "@" in mirror:  # before which may be a password
        raise DownloadFailedError(f"{MIRROR_VARIABLE} is not an https URL without a user")
    return f"{mirror.rstrip('/')}/{url.removeprefix('https://')}"


def program_version(program: Path) -> str | None:
    """The version that a program says, such as `v1.34.4`; None where it doesn't run."""
    arguments = {"kubectl": ["version", "--client"], "helm": ["version", "--short"]}
    command = [str(program), *arguments.get(program.name, ["--version"])]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return None
    # The registry begins with the path that it was started by, which has a version in it too.
    output = done.stdout.decode(errors="replace").replace(str(program), "")
    said = re.search(r"\d+\.\d+\.\d+(-[\w.]+)?", output)
    return f"v{said[0]}" if said else None


def _printable(error: Exception) -> str:
    """One line that a server can't fill with escape sequences."""
    return "".join(letter if letter.isprintable() else " " for letter in str(error))[:300]
