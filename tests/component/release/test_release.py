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
from images.product import VARIANTS

ROOT = Path(__file__).resolve().parents[3]
VERSION = copyrator.__version__
REGISTRY = "registry.example.com/team"
FILES = "https://example.com/files"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    output = tmp_path_factory.mktemp("release") / "dist"
    release.build(output, REGISTRY, FILES, image=False)
    return output


def test_it_has_wheel_chart_crds_and_checksums(built):
    assert sorted(path.name for path in built.iterdir()) == [
        "INSTALL.md",
        "SHA256SUMS",
        f"copyrator-{VERSION}-py3-none-any.whl",
        f"copyrator-{VERSION}.provenance.json",
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


def test_the_same_commit_gives_the_same_wheel_and_chart(built, tmp_path):
    release.build(tmp_path / "again", REGISTRY, FILES, image=False)
    for name in (f"copyrator-{VERSION}-py3-none-any.whl", f"copyrator-{VERSION}.tgz"):
        assert (tmp_path / "again" / name).read_bytes() == (built / name).read_bytes()


def test_the_chart_pulls_from_its_registry_and_the_readmes_commands_name_it(built, tmp_path):
    notes = (built / "INSTALL.md").read_text()
    assert f"helm install copyrator oci://{REGISTRY}/charts/copyrator --version {VERSION} " in notes
    assert f"\npipx install {FILES}/copyrator-{VERSION}-py3-none-any.whl\n" in notes
    digests = {variant: f"sha256:{index:064x}" for index, variant in enumerate(VARIANTS)}
    release.chart(tmp_path, REGISTRY, digests)
    with tarfile.open(tmp_path / f"copyrator-{VERSION}.tgz") as chart:
        values = yaml.safe_load(chart.extractfile("copyrator/values.yaml").read())
    assert values["image"]["repository"] == f"{REGISTRY}/copyrator"
    assert values["image"]["digests"] == digests
    assert not values["image"]["tag"], "the chart's appVersion"


def test_a_push_is_signed():
    command = [sys.executable, ROOT / "hack" / "release.py", "--push"]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'hack'}:{ROOT / 'operator'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "--push requires --key FILE or --keyless: a release is signed" in done.stderr
