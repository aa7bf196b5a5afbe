"""Official builds of the pinned versions, downloaded where COPYRATOR_DOWNLOAD asks for it.

What goes wrong is said in one line, and the programs are compiled instead. A file is known by its
checksum in go/SHA256SUMS, or else by its publisher's checksum file.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import shutil
import ssl
import subprocess
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path
from urllib.parse import urljoin

from localcluster import pins
from localcluster.locks import file_lock
from localcluster.pins import Module, go_platform
from localcluster.progress import Progress, duration

DOWNLOAD_VARIABLE = "COPYRATOR_DOWNLOAD"
# A base URL to which a file's host and path are appended, for networks without the Internet.
MIRROR_VARIABLE = "COPYRATOR_MIRROR"

_STALL_SECONDS = 20.0
"""For a connection, and between two pieces of an answer."""
_WINDOW_SECONDS = 30.0
_WINDOW_BYTES = 4 * 2**20
"""Less than this in a window is slower than to compile."""
_FILE_BYTES = 256 * 2**20
_UNPACKED_BYTES = 2**30
_PIECE_BYTES = 2**16
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_REQUESTS = 6
"""One, and five redirects."""


@dataclass(frozen=True, slots=True)
class Release:
    """Where a publisher has the files of a release.

    Filled in are `{version}`, `{number}` (the version without v), `{arch}` and `{program}`, in
    `checksums` also `{url}`.

    Attributes:
        url: an archive, or the program itself.
        checksums: the publisher's checksum file.
        member: the program's path in the archive; empty where the file is the program.
    """

    url: str
    checksums: str
    member: str = ""


_ETCD = "https://github.com/etcd-io/etcd/releases/download/{version}"
_DISTRIBUTION = "https://github.com/distribution/distribution/releases/download/{version}"

RELEASES = {
    # The archive has each server twice, the second time in an image.
    "k8s.io/kubernetes": Release(
        "https://dl.k8s.io/release/{version}/bin/linux/{arch}/{program}", "{url}.sha256"
    ),
    "go.etcd.io/etcd/server/v3": Release(
        _ETCD + "/etcd-{version}-linux-{arch}.tar.gz",
        _ETCD + "/SHA256SUMS",
        "etcd-{version}-linux-{arch}/etcd",
    ),
    "github.com/distribution/distribution/v3": Release(
        _DISTRIBUTION + "/registry_{number}_linux_{arch}.tar.gz", "{url}.sha256", "registry"
    ),
    "helm.sh/helm/v3": Release(
        "https://get.helm.sh/helm-{version}-linux-{arch}.tar.gz",
        "{url}.sha256sum",
        "linux-{arch}/helm",
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
                why = _printable(str(error))
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
        began = time.monotonic()
        wanted = file.pinned or _published_checksum(file)
        found = hashlib.sha256()
        fetched = draft.with_name(f"{draft.name}.fetched")
        done = 0
        what = f"downloading {file.program} {file.version}"
        with fetched.open("wb") as sink:
            for piece, size in _pieces(file.url, _FILE_BYTES):
                sink.write(piece)
                found.update(piece)
                done += len(piece)
                of = f" of {size >> 20}" if size else ""
                self.progress.tick(f"{what}: {done >> 20}{of} MB", time.monotonic() - began)
        if found.hexdigest() != wanted:
            raise DownloadFailedError(
                f"{file.url} has the SHA-256 {found.hexdigest()}, not {wanted}"
            )
        if file.member:
            _unpack(file, fetched, draft)
        else:
            fetched.rename(draft)
        draft.chmod(0o755)
        version = program_version(draft)
        if version != file.version:
            is_what = f"says that it is {version}" if version else "doesn't run on this machine"
            raise DownloadFailedError(f"the program in {file.url} {is_what}")
        self.progress.line(f"[{duration(time.monotonic() - began)}] {what}: done")


@dataclass(frozen=True, slots=True)
class _File:
    """What is downloaded for one program, see `Release`; `pinned` is its SHA-256, if known here."""

    program: str
    version: str
    url: str
    checksums: str
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
        checksums = release.checksums.format(url=url, **names)
        sums = (pins.GO_DIR / "SHA256SUMS").read_text(encoding="utf-8")
        pinned = _checksum_in(sums, url.removeprefix("https://"))
        return cls(program, version, url, checksums, release.member.format(**names), pinned)

    def key(self) -> str:
        """A name for the program that changes with where it is from and with its checksum."""
        known_by = self.pinned or os.environ.get(MIRROR_VARIABLE, "")
        digest = hashlib.sha256(f"{self.url} {known_by}".encode()).hexdigest()
        return f"{self.program}-{self.version}-release-{digest[:16]}"


def _checksum_in(sums: str, name: str) -> str | None:
    """The SHA-256 of a file in a list as sha256sum prints it."""
    for line in sums.splitlines():
        words = line.split()
        if len(words) == 2 and words[1].lstrip("*") == name and _is_checksum(words[0]):
            return words[0]
    return None


def _is_checksum(word: str) -> bool:
    return re.fullmatch("[0-9a-f]{64}", word) is not None


def _published_checksum(file: _File) -> str:
    """The SHA-256 that the publisher has beside the file, in a list or alone."""
    answer = b"".join(piece for piece, _ in _pieces(file.checksums, 2**20))
    text = answer.decode("ascii", errors="replace")
    found = _checksum_in(text, file.url.rpartition("/")[2])
    if found or _is_checksum(text.strip()):
        return found or text.strip()
    raise DownloadFailedError(f"{file.checksums} has no SHA-256 of the file")


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


def _open(source: str) -> HTTPResponse:
    """Ask for a URL and follow redirects, over https only."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPSHandler(context=ssl.create_default_context()),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    for _ in range(_REQUESTS):
        try:
            answer: HTTPResponse = opener.open(source, timeout=_STALL_SECONDS)
        except urllib.error.HTTPError as error:
            # urllib's own handler would read all that comes with a redirect.
            error.close()
            target = error.headers.get("Location")
            if target is None or error.code not in _REDIRECTS:
                raise DownloadFailedError(f"status {error.code}") from error
            source = urljoin(source, target)
            if not source.startswith("https://"):
                raise DownloadFailedError("redirected to a URL that isn't https") from error
            continue
        return answer
    raise DownloadFailedError("too many redirects")


def _pieces(url: str, limit: int) -> Iterator[tuple[bytes, int | None]]:
    """The body of an answer, piece by piece, each with the size of the whole where that is known.

    Raises:
        DownloadFailedError: there is no answer, it is too large or too slow, or its end is missing.
    """
    source = _source(url)
    try:
        with _open(source) as answer:
            size = None if answer.length is None else int(answer.length)
            done, window, before = 0, time.monotonic(), 0
            while True:
                if max(done, size or 0) > limit:
                    raise DownloadFailedError(f"larger than {limit >> 20} MB")
                # read() would wait for all of a piece, however slowly it comes.
                if not (piece := answer.read1(_PIECE_BYTES)):
                    break
                done += len(piece)
                now = time.monotonic()
                if now - window > _WINDOW_SECONDS:
                    if done - before < _WINDOW_BYTES:
                        rate = (done - before) / (now - window) / 1000
                        raise DownloadFailedError(f"only {rate:.0f} kB a second")
                    window, before = now, done
                yield piece, size
            if size is not None and done < size:
                raise DownloadFailedError(f"ended after {done} of {size} bytes")
    except urllib.error.URLError as error:
        raise DownloadFailedError(f"{source}: {error.reason}") from error
    except TimeoutError as error:
        raise DownloadFailedError(f"{source}: nothing for {_STALL_SECONDS:.0f} s") from error
    except (DownloadFailedError, OSError, http.client.HTTPException, ValueError) as error:
        # ValueError: it is redirected to what is no URL.
        raise DownloadFailedError(f"{source}: {error}") from error


def _unpack(file: _File, archive: Path, draft: Path) -> None:
    """Write the program in an archive to `draft`; no path or link in there has an effect.

    Raises:
        DownloadFailedError: it isn't there, isn't a regular file, or lies behind too much.
    """
    try:
        with tarfile.open(archive, "r|gz") as entries:
            for entry in entries:
                if entry.offset_data + entry.size > _UNPACKED_BYTES:
                    raise DownloadFailedError(f"{file.url} unpacks to over 1 GB")
                if entry.name == file.member and entry.isreg():
                    content = entries.extractfile(entry)
                    assert content is not None
                    with draft.open("wb") as sink:
                        shutil.copyfileobj(content, sink)
                    return
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise DownloadFailedError(f"{file.url} can't be unpacked: {error}") from error
    raise DownloadFailedError(f"{file.url} has no file {file.member}")


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


def _printable(text: str) -> str:
    """One line that a server can't fill with escape sequences."""
    return "".join(letter if letter.isprintable() else " " for letter in text)[:300]
