"""`localcluster.bundle` pushes charts as werf does."""

import json
import urllib.request

import pytest
from tests.e2e.standin.conftest import Charts

from localcluster import Cluster, bundle
from localcluster.bundle import junk_tags


def test_the_config_digest_of_a_semver_tag_stays(charts: Charts, cluster: Cluster) -> None:
    def config() -> str:
        url = f"http://{cluster.registry}/v2/{charts.repo}/manifests/1.0.0"
        accept = {"Accept": "application/vnd.oci.image.manifest.v1+json"}
        with urllib.request.urlopen(urllib.request.Request(url, headers=accept)) as answer:
            manifest = json.load(answer)
        assert "annotations" not in manifest
        assert [layer["mediaType"] for layer in manifest["layers"]] == ["application/tar+gzip"]
        return str(manifest["config"]["digest"])

    assert charts.push(greeting="a") == charts.push(greeting="a")
    before = config()
    charts.push(greeting="b")

    assert config() == before


def test_a_repository_can_be_filled_with_the_tags_of_a_stages_storage(
    charts: Charts, cluster: Cluster
) -> None:
    charts.push()

    junk = junk_tags(14, cluster.registry, charts.repo, "1.0.0")

    url = f"http://{cluster.registry}/v2/{charts.repo}/tags/list"
    with urllib.request.urlopen(url) as answer:
        tags = json.load(answer)["tags"]
    assert len(set(junk)) == 14
    assert set(tags) == {*junk, "1.0.0"}


def test_a_push_from_the_command_line_prints_the_digest(
    charts: Charts, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = charts.push("2.0.0")
    chart = str(charts.directory / "demo")
    reference = f"{cluster.registry}/{charts.repo}:2.0.0"

    assert bundle.main(["push", chart, reference]) == 0
    assert capsys.readouterr().out == f"{digest}\n"
    assert bundle.main(["push", "/nowhere", reference]) == 1
    assert "/nowhere" in capsys.readouterr().err
