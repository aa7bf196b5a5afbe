"""What a release consists of, with one version from one place, and the same bytes each time."""

import subprocess
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
