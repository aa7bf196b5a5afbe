"""A release is pushed whole or not at all."""

import http.client
import shutil

import pytest
from tests.node.conftest import make_release

INDEX = "application/vnd.oci.image.index.v1+json"


@pytest.mark.parametrize(
    ("place", "password", "fault"),
    [("", "password", "copyrator:0.1.0 is there already"), ("/other", "wrong", "cosign3")],
    ids=["a version that is there", "a key that can't be used"],
)
def test_nothing_is_pushed(cluster, dist, tmp_path, place, password, fault):
    shutil.copy(dist.parent / "release.key", tmp_path)
    before = pushed(cluster.registry, place)
    done = make_release(tmp_path, f"{cluster.registry}{place}", password)
    assert done.returncode != 0
    assert fault in done.stderr
    assert pushed(cluster.registry, place) == before


def pushed(registry: str, place: str) -> str | None:
    """The digest of the plain image; None where there is none."""
    connection = http.client.HTTPConnection(registry, timeout=10)
    try:
        path = f"/v2{place}/copyrator/manifests/0.1.0"
        connection.request("HEAD", path, headers={"Accept": INDEX})
        response = connection.getresponse()
        assert response.status == (404 if place else 200)
        return response.headers["Docker-Content-Digest"]
    finally:
        connection.close()
