"""A local control plane keeps to loopback, RBAC and its directory; its programs are pinned."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from localcluster import download, pins
from localcluster.components import Plan, listeners
from localcluster.pins import CLUSTER_PROGRAMS, MODULES, Module, module_of, pinned_version
from localcluster.state import ClusterState, Layout


def plan() -> Plan:
    ports = {name: 20000 + n for n, name in enumerate(listeners(registry=True))}
    state = ClusterState(ports, True, True)
    programs = {name: Path("/programs") / name for name in CLUSTER_PROGRAMS}
    return Plan(Layout(Path("/clusters/one")), state, programs)


def test_every_address_is_on_loopback() -> None:
    for name in plan().names():
        words = " ".join(plan().component(name).command)
        hosts = re.findall(r"(?:address=|https?://)([\w.]+)", words)
        assert set(hosts) <= {"127.0.0.1", "kubernetes.default.svc.cluster.local"}, name


def test_all_that_is_written_goes_under_the_directory() -> None:
    for name in plan().names():
        for word in plan().component(name).command[1:]:
            path = word.partition("=")[2]
            if path.startswith("/"):
                assert path.startswith("/clusters/one/"), f"{name}: {word}"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Module:
    """The module of what a cluster runs in a copy of `go/` that may be changed."""
    shutil.copytree(pins.GO_DIR, tmp_path / "go")
    monkeypatch.setattr(pins, "GO_DIR", tmp_path / "go")
    return module_of("etcd")


@pytest.mark.parametrize("file", ["go.mod", "go.sum", "registry/main.go"])
def test_a_change_of_a_pin_changes_the_key_of_its_module_only(cluster: Module, file: str) -> None:
    before = {module.name: module.key() for module in MODULES}

    with (cluster.directory / file).open("a") as changed:
        changed.write("// another\n")

    after = {module.name: module.key() for module in MODULES}
    assert {name for name in before if before[name] != after[name]} == {"cluster"}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_every_module_is_pinned_and_names_its_go(module: Module) -> None:
    assert module.version
    assert (1, 20, 0) < module.required_go() < (1, 27, 0)
    sums = (module.directory / "go.sum").read_text()
    for upstream in (module.requires, *module.others.values()):
        assert f"{upstream} {pinned_version(module.directory, upstream)} h1:" in sums


@pytest.mark.parametrize("name", ["cluster", "kubernetes-1.29", "kubernetes-1.36"])
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


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_the_official_builds_of_all_pinned_versions_have_a_checksum(
    architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one they are compiled."""
    monkeypatch.setattr(download, "go_platform", lambda: f"linux/{architecture}")
    cluster = module_of("kubectl")
    kubernetes = {name: cluster.packages[name] for name in cluster.packages.keys() - cluster.others}
    others = [
        replace(cluster, name=path.name, packages=kubernetes, others={})
        for path in pins.GO_DIR.glob("kube*")
    ]
    sums = (pins.GO_DIR / "SHA256SUMS").read_text().splitlines()
    listed = {line.split()[1] for line in sums if f"{architecture}" in line}

    files = [
        download._File.of(release, module, program)
        for module in {module.name: module for module in [*MODULES, *others]}.values()
        for program in module.packages
        if (release := download.RELEASES.get(module.upstream(program)))
    ]

    assert [file.url for file in files if not file.pinned] == []
    assert {file.url.removeprefix("https://") for file in files} == listed


def test_removing_takes_only_what_is_ours(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "cluster")
    layout.prepare()
    layout.logs.joinpath("etcd.log").write_text("x")
    (layout.root / "state.tmp").write_text("left by an interrupted save")
    (layout.root / "mine.txt").write_text("x")

    layout.remove()

    assert [entry.name for entry in layout.root.iterdir()] == ["mine.txt"]


def test_removing_follows_no_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    layout = Layout(tmp_path / "cluster")
    layout.root.mkdir()
    layout.registry.symlink_to(outside)

    layout.remove()

    assert (outside / "kept").exists()
    assert not layout.root.exists()
