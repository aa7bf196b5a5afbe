"""Which programs there are, where their pins stand, and the key that a built one is cached by.

Each directory under `go/` is a small Go module that pins upstream projects: its go.sum verifies
every byte that is compiled. What every cluster runs is in one module, `cluster`, so that a package
which several programs use has one version and is compiled once: helm shares four fifths of its
packages with kubectl.
"""

import hashlib
import os
import platform
import re
from dataclasses import dataclass, field
from pathlib import Path

from localcluster.errors import BuildFailedError

GO_DIR = Path(__file__).parent / "go"
# readonly: GOFLAGS=-mod=mod of a user must not change the pins.
BUILD_FLAGS = ("-mod=readonly", "-trimpath", "-buildvcs=false")
BUILD_ENVIRONMENT = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}

# Chooses another minor version that is pinned, such as 1.29, for all that this process starts.
KUBERNETES_VARIABLE = "COPYRATOR_KUBERNETES"

_ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


@dataclass(frozen=True, slots=True)
class Module:
    """One directory under `go/`, and the programs that are built there.

    Attributes:
        name: the directory's name.
        requires: the upstream module whose version is the programs' version.
        packages: the Go package of each program, by the program's name.
        variables: what the linker sets; `{version}`, `{major}` and `{minor}` are filled in, and
            the versions of `others` by their names. Without them a server built from a module
            calls itself v0.0.0-master, and kubectl and helm refuse that or take it for a very
            old one.
        others: the upstream module of each program that isn't of `requires`.
    """

    name: str
    requires: str
    packages: dict[str, str]
    variables: dict[str, str]
    others: dict[str, str] = field(default_factory=dict)

    @property
    def directory(self) -> Path:
        """The directory with go.mod.

        Raises:
            BuildFailedError: a Kubernetes version was chosen that isn't pinned.
        """
        directory = GO_DIR / self.name
        if not directory.is_dir():
            pinned = sorted(path.name for path in GO_DIR.glob(f"{_KUBERNETES}-*"))
            known = ", ".join(name.removeprefix(f"{_KUBERNETES}-") for name in pinned)
            default = ".".join(_default_kubernetes()[:2])
            raise BuildFailedError(
                f"There are no pins for {self.name}.",
                f"Set {KUBERNETES_VARIABLE} to one of {known}, or unset it for {default}.",
            )
        return directory

    @property
    def version(self) -> str:
        """The pinned upstream version, such as `v1.34.4`."""
        return pinned_version(self.directory, self.requires)

    def upstream(self, program: str) -> str:
        """The upstream module that one of its programs is built from."""
        return self.others.get(program, self.requires)

    def version_of(self, program: str) -> str:
        """The pinned upstream version of one of its programs."""
        return pinned_version(self.directory, self.upstream(program))

    def ldflags(self) -> str:
        """The linker's flags: no symbol table, no DWARF, and the version variables."""
        # What the release builds of upstream say about the Kubernetes they belong to.
        own = self.requires == _K8S_MODULE
        major, minor = (_parts(self.version) if own else _default_kubernetes())[:2]
        values = {program: self.version_of(program) for program in self.others}
        values |= {"version": self.version, "major": major, "minor": minor}
        settings = [f"-X {name}={value.format(**values)}" for name, value in self.variables.items()]
        return " ".join(["-s", "-w", *settings])

    def key(self) -> str:
        """A name for the built programs that changes with anything they are made of."""
        digest = hashlib.sha256()
        for part in (*BUILD_FLAGS, self.ldflags(), go_platform(), *sorted(self.packages.values())):
            digest.update(part.encode() + b"\0")
        for variable, value in sorted(BUILD_ENVIRONMENT.items()):
            digest.update(f"{variable}={value}\0".encode())
        for source in sorted(self.directory.rglob("*")):
            if source.suffix in {".mod", ".sum", ".go"}:
                name = source.relative_to(self.directory).as_posix()
                digest.update(name.encode() + b"\0" + source.read_bytes() + b"\0")
        return f"{self.name}-{self.version}-{digest.hexdigest()[:16]}"

    def required_go(self) -> tuple[int, ...]:
        """The lowest Go version that the module's go.mod accepts."""
        return parse_go_version(_directive(self.directory, r"^go (\S+)$"))


_KUBERNETES = "kubernetes"
_CLUSTER = "cluster"
_K8S_MODULE = "k8s.io/kubernetes"
_K8S_VERSION = "k8s.io/component-base/version"
_K8S_PACKAGES = {
    program: f"{_K8S_MODULE}/cmd/{program}"
    for program in (
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubectl",
        "kubelet",
    )
}
_K8S_VARIABLES = {
    f"{_K8S_VERSION}.gitVersion": "{version}",
    f"{_K8S_VERSION}.gitMajor": "{major}",
    f"{_K8S_VERSION}.gitMinor": "{minor}",
    f"{_K8S_VERSION}.gitTreeState": "clean",
}
_COSIGN_VERSION = "sigs.k8s.io/release-utils/version.gitVersion"
_HELM = "helm.sh/helm/v3"
_HELM_K8S = (f"{_HELM}/pkg/chartutil", f"{_HELM}/pkg/lint/rules")
_REGISTRY = "github.com/distribution/distribution/v3"
_ETCD = "go.etcd.io/etcd/server/v3"

_CHOSEN = os.environ.get(KUBERNETES_VARIABLE)

MODULES: tuple[Module, ...] = (
    # Before `cluster`, which has the same programs of the default version.
    *(
        [Module(f"{_KUBERNETES}-{_CHOSEN}", _K8S_MODULE, _K8S_PACKAGES, _K8S_VARIABLES)]
        if _CHOSEN
        else []
    ),
    Module(
        _CLUSTER,
        _K8S_MODULE,
        {
            "etcd": _ETCD,
            **_K8S_PACKAGES,
            # Ours: upstream's has the drivers of three clouds.
            "registry": "./registry",
            "helm": f"{_HELM}/cmd/helm",
        },
        {
            **_K8S_VARIABLES,
            f"{_REGISTRY}/version.version": "{registry}",
            f"{_HELM}/internal/version.version": "{helm}",
            **{f"{package}.k8sVersionMajor": "{major}" for package in _HELM_K8S},
            **{f"{package}.k8sVersionMinor": "{minor}" for package in _HELM_K8S},
        },
        {"etcd": _ETCD, "registry": _REGISTRY, "helm": _HELM},
    ),
    # For tests: what reads workflow files as the public forge does, and CRDs that a chart may need.
    Module(
        "actionlint",
        "github.com/rhysd/actionlint",
        {"actionlint": "github.com/rhysd/actionlint/cmd/actionlint"},
        {},
    ),
    # Ours, of Prometheus' engine alone: promtool takes twenty minutes to build, this less than one.
    Module("promql", "github.com/prometheus/prometheus", {"promql": "."}, {}),
    # What signs and verifies the material of the tests of signatures: see hack/signatures.
    Module(
        "cosign2",
        "github.com/sigstore/cosign/v2",
        {"cosign2": "github.com/sigstore/cosign/v2/cmd/cosign"},
        {_COSIGN_VERSION: "{version}"},
    ),
    Module(
        "cosign3",
        "github.com/sigstore/cosign/v3",
        {"cosign3": "github.com/sigstore/cosign/v3/cmd/cosign"},
        {_COSIGN_VERSION: "{version}"},
    ),
    Module(
        "notation",
        "github.com/notaryproject/notation",
        {"notation": "github.com/notaryproject/notation/cmd/notation"},
        {},
    ),
    # Ours: go-containerregistry's registry with the referrers API, which distribution lacks.
    Module("referrers", "github.com/google/go-containerregistry", {"referrers": "."}, {}),
    # Ours: Fulcio's and Rekor's modules without their servers.
    Module("keyless", "github.com/sigstore/sigstore-go", {"keyless": "."}, {}),
    Module("prometheus-operator", "github.com/prometheus-operator/prometheus-operator", {}, {}),
)

# What every cluster runs. The others are built when somebody asks for them.
CLUSTER_PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "registry",
    "helm",
)


def module_of(program: str) -> Module:
    """The module that a program is built from.

    Raises:
        BuildFailedError: there is no such program.
    """
    for module in MODULES:
        if program in module.packages:
            return module
    known = ", ".join(program for module in MODULES for program in module.packages)
    raise BuildFailedError(f"There is no program {program!r}.", f"Choose from: {known}.")


def pinned_version(directory: Path, requires: str) -> str:
    """The version of an upstream module that a go.mod requires."""
    return _directive(directory, rf"^(?:require )?\s*{re.escape(requires)} (v\S+)")


def _default_kubernetes() -> list[str]:
    """The version that is used unless another is chosen, in its parts."""
    return _parts(pinned_version(GO_DIR / _CLUSTER, _K8S_MODULE))


def _parts(version: str) -> list[str]:
    return version.lstrip("v").split(".")


def parse_go_version(text: str) -> tuple[int, ...]:
    """`go1.26.8` or `1.24.0` as a tuple that compares; a pre-release counts as its release."""
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(part or 0) for part in found.groups()) if found else (0, 0, 0)


def go_platform() -> str:
    """This machine as Go names it, such as `linux/amd64`.

    Raises:
        BuildFailedError: the machine isn't one that the control plane runs on.
    """
    system, machine = platform.system().lower(), platform.machine().lower()
    if system != "linux" or machine not in _ARCHITECTURES:
        raise BuildFailedError(
            f"The local control plane doesn't run on {system}/{machine}.",
            "Use Linux on x86_64 or arm64, for example a virtual machine or WSL 2.",
        )
    return f"{system}/{_ARCHITECTURES[machine]}"


def _directive(directory: Path, pattern: str) -> str:
    go_mod = directory / "go.mod"
    found = re.search(pattern, go_mod.read_text(encoding="utf-8"), re.MULTILINE)
    if not found:
        raise BuildFailedError(f"{go_mod} has no line {pattern!r}.", "Restore it from git.")
    return found.group(1)
