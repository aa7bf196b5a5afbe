"""A release is pushed whole or not at all."""

import json
import shutil
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from tests.node.conftest import make_release


@pytest.mark.parametrize(
    ("place", "password", "fault"),
    [("", "password", "copyrator:0.1.0 is there already"), ("/other", "wrong", "cosign3")],
    ids=["a version that is there", "a key that can't be used"],
)
def test_nothing_is_pushed(cluster, dist, tmp_path, place, password, fault):
    shutil.copy(dist.parent / "release.key", tmp_path)
    before = digest(cluster.registry, place)
    done = make_release(tmp_path, f"{cluster.registry}{place}", password)
    assert done.returncode != 0
    assert fault in done.stderr
    assert digest(cluster.registry, place) == before


def digest(registry: str, place: str) -> str:
    """That of the plain image; empty where there is none."""
    repository = f"http://{registry}/v2{place}/copyrator"
    try:
        with urlopen(f"{repository}/tags/list") as found:
            assert "0.1.0" in json.load(found)["tags"]
        with urlopen(f"{repository}/manifests/0.1.0") as found:
            return str(found.headers["Docker-Content-Digest"])
    except HTTPError as error:
        assert error.code == 404
        return ""
