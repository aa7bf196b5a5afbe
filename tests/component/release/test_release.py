"""What a release consists of, with one version from one place, and the same bytes each time."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

import copyrator
import release

ROOT = Path(__file__).resolve().parents[3]
VERSION = copyrator.__version__


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    output = tmp_path_factory.mktemp("release") / "dist"
    release.build(output, image=False)
    return output


def test_it_has_wheel_chart_crds_and_checksums(built):
    assert sorted(path.name for path in built.iterdir()) == [
        "SHA256SUMS",
        f"copyrator-{VERSION}-py3-none-any.whl",
        f"copyrator-{VERSION}.tgz",
        f"copyrator-crds-{VERSION}.yaml",
    ]
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=built, check=True)


def test_every_part_says_the_same_version(built):
    with zipfile.ZipFile(built / f"copyrator-{VERSION}-py3-none-any.whl") as wheel:
        metadata = wheel.read(f"copyrator-{VERSION}.dist-info/METADATA").decode()
    assert f"\nVersion: {VERSION}\n" in metadata
    with tarfile.open(built / f"copyrator-{VERSION}.tgz") as chart:
        described = yaml.safe_load(chart.extractfile("copyrator/Chart.yaml").read())
    assert (described["version"], described["appVersion"]) == (VERSION, VERSION)


def test_the_crds_are_both_and_whole(built):
    text = (built / f"copyrator-crds-{VERSION}.yaml").read_text()
    names = [crd["metadata"]["name"] for crd in yaml.safe_load_all(text)]
    assert names == ["bundles.operator.werf.dev", "copyrators.flant.com"]


def test_the_same_commit_gives_the_same_wheel(built, tmp_path):
    name = f"copyrator-{VERSION}-py3-none-any.whl"
    release.wheel(tmp_path, "1700000000")
    first = (tmp_path / name).read_bytes()
    release.wheel(tmp_path, "1700000000")
    assert (tmp_path / name).read_bytes() == first


def test_for_a_registry_the_chart_pulls_from_it_and_the_readmes_commands_name_it(tmp_path):
    registry = "registry.example.com/team"
    release.build(tmp_path / "dist", registry, "https://example.com/files", image=False)
    notes = (tmp_path / "dist" / "INSTALL.md").read_text()
    assert f"helm install copyrator oci://{registry}/charts/copyrator --version {VERSION} " in notes
    wheel = f"copyrator-{VERSION}-py3-none-any.whl"
    assert f"\npipx install https://example.com/files/{wheel}\n" in notes
    assert (tmp_path / "dist" / wheel).exists()
    assert "OWNER" not in notes
    with tarfile.open(tmp_path / "dist" / f"copyrator-{VERSION}.tgz") as chart:
        values = yaml.safe_load(chart.extractfile("copyrator/values.yaml").read())
    assert values["image"]["repository"] == f"{registry}/copyrator"
    assert not values["image"]["tag"], "the chart's appVersion"


@pytest.mark.parametrize(
    ("typed", "runs"),
    [
        ("", ""),
        ("REGISTRY=example.com/a", " --registry example.com/a"),
        ("REGISTRY=example.com/a PUSH=1", " --registry example.com/a --push"),
        ("PUSH=0 RELEASE=--no-image", " --no-image"),
    ],
)
def test_make_release_passes_its_variables_on(typed, runs):
    command = ["make", "--silent", "--dry-run", "release", *typed.split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert (
        " ".join(done.stdout.replace("\\", " ").split()) == f"hack/run python hack/release.py{runs}"
    )


def test_a_push_needs_a_registry():
    command = [sys.executable, ROOT / "hack" / "release.py", "--no-image", "--push"]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'hack'}:{ROOT / 'operator'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "--push requires --registry" in done.stderr
