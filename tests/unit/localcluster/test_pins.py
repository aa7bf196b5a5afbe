"""A built program is cached under a key that changes with anything it is made of."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from localcluster import pins
from localcluster.errors import BuildFailedError
from localcluster.pins import MODULES, Module, module_of, parse_go_version


@pytest.fixture
def etcd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Module:
    """The module of etcd in a copy of `go/` that may be changed."""
    shutil.copytree(pins.GO_DIR, tmp_path / "go")
    monkeypatch.setattr(pins, "GO_DIR", tmp_path / "go")
    return module_of("etcd")


def test_the_key_is_stable(etcd: Module) -> None:
    assert etcd.key() == etcd.key()
    assert etcd.key().startswith("etcd-v3.6.7-")


@pytest.mark.parametrize("file", ["go.mod", "go.sum"])
def test_a_change_of_a_pin_changes_the_key_of_its_module_only(etcd: Module, file: str) -> None:
    before = {module.name: module.key() for module in MODULES}

    with (etcd.directory / file).open("a") as changed:
        changed.write("// another\n")

    after = {module.name: module.key() for module in MODULES}
    assert {name for name in before if before[name] != after[name]} == {"etcd"}


def test_the_key_changes_with_flags_and_machine(
    etcd: Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {etcd.key(), replace(etcd, variables={"main.x": "1"}).key()}
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    keys.add(etcd.key())
    monkeypatch.setattr(pins, "BUILD_FLAGS", ("-race",))
    keys.add(etcd.key())

    assert len(keys) == 4


def test_the_key_of_our_own_program_changes_with_its_source(etcd: Module) -> None:
    pki = module_of("pki")
    before = pki.key()

    with (pki.directory / "main.go").open("a") as source:
        source.write("// more\n")

    assert pki.key() != before


def test_programs_say_the_version_of_their_pin() -> None:
    flags = replace(module_of("kube-apiserver"), name="kubernetes").ldflags()

    assert "-X k8s.io/component-base/version.gitVersion=v1.34.4" in flags
    assert "-X k8s.io/component-base/version.gitMinor=34" in flags
    # Charts with a kubeVersion are rendered without a cluster, too.
    assert "-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=34" in module_of("helm").ldflags()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_every_module_is_pinned_and_names_its_go(module: Module) -> None:
    assert module.version
    assert (1, 20, 0) < module.required_go() < (1, 27, 0)
    if module.requires:
        sums = (module.directory / "go.sum").read_text()
        assert f"{module.requires} {module.version} h1:" in sums


@pytest.mark.parametrize("name", ["kubernetes", "kubernetes-1.29", "kubernetes-1.36"])
def test_kubernetes_replaces_every_staging_module_by_its_release(name: str) -> None:
    kubernetes = replace(module_of("kubectl"), name=name)
    lines = (kubernetes.directory / "go.mod").read_text().splitlines()
    # A comment says of a module why its version is another one.
    staging = [line.split() for line in lines if "=>" in line and "//" not in line]

    assert len(staging) >= 24
    expected = kubernetes.version.replace("v1.", "v0.")
    assert {version for *_, version in staging} == {expected}
    sums = (kubernetes.directory / "go.sum").read_text()
    assert f"k8s.io/kubernetes {kubernetes.version} h1:" in sums


def test_another_kubernetes_says_its_own_version_and_leaves_helm_alone() -> None:
    older = replace(module_of("kubectl"), name="kubernetes-1.29")

    assert "-X k8s.io/component-base/version.gitVersion=v1.29.6" in older.ldflags()
    assert "-X k8s.io/component-base/version.gitMinor=29" in older.ldflags()
    assert older.key() != module_of("kubectl").key()


def test_a_kubernetes_that_is_not_pinned_is_refused_with_those_that_are() -> None:
    missing = replace(module_of("kubectl"), name="kubernetes-1.2")

    with pytest.raises(BuildFailedError, match=r"COPYRATOR_KUBERNETES to one of 1\.29, 1\.36"):
        missing.key()


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("go1.26.8", (1, 26, 8)),
        ("1.24.0", (1, 24, 0)),
        ("go1.25", (1, 25, 0)),
        ("devel go1.27-4f2b", (1, 27, 0)),
        ("go1.25rc1", (1, 25, 0)),
        ("", (0, 0, 0)),
    ],
)
def test_go_versions_compare(text: str, version: tuple[int, ...]) -> None:
    assert parse_go_version(text) == version


def test_an_unknown_program_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BuildFailedError, match=r"(?s)'docker'.*kubectl"):
        module_of("docker")


def test_another_system_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")

    with pytest.raises(BuildFailedError, match=r"(?s)darwin.*Linux"):
        pins.go_platform()
