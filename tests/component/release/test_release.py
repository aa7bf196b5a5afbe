"""What a release consists of, with one version from one place, and the same bytes each time."""

import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

import copyrator
import release
from images import product

ROOT = Path(__file__).resolve().parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
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


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_is_sound(path):
    text = path.read_text()
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}, "a job asks for more where it needs it"
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for job in workflow["jobs"].values():
        assert job["runs-on"]
        needed = job.get("needs", "")
        assert {needed} - {""} <= workflow["jobs"].keys()
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"])
            for target in re.findall(r"^make ([a-z-]+)", step.get("run", ""), re.MULTILINE):
                assert target in targets


def test_what_is_published_is_signed_and_attested():
    text = (ROOT / ".github" / "workflows" / "release.yaml").read_text()
    steps = [s for job in yaml.safe_load(text)["jobs"].values() for s in job["steps"]]
    (build,) = [step["with"] for step in steps if "build-push" in step.get("uses", "")]
    variants = yaml.safe_load(text)["jobs"]["image"]["strategy"]["matrix"]["variant"]
    assert variants == ["", product.KEYLESS], "the plain image and that of image.keyless"
    assert build["tags"].endswith("version }}${{ matrix.variant }}")
    assert "VARIANT=${{ matrix.variant }}" in build["build-args"].splitlines()
    assert build["platforms"] == "linux/amd64,linux/arm64"
    assert build["sbom"] is True
    assert build["provenance"] == "mode=max"
    signed = [step["run"] for step in steps if "cosign sign" in step.get("run", "")]
    assert len(signed) == 3, "checksums, image and chart"
    assert (ROOT / ".ci" / "run").read_text().count("make test") == 3
