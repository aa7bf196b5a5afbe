"""A plan's Job has the image that its pod ran."""

import pytest

from copyrator.bundles.plans.jobs import pinned_image

REPO = "registry.werf.io/werf/werf"

SHA = f"sha256:{'6' * 64}"

PINNED = f"{REPO}@{SHA}"

TAGGED = f"{REPO}:2.67.0"


@pytest.mark.parametrize(
    ("image", "reported", "expected"),
    [
        pytest.param(TAGGED, PINNED, PINNED, id="containerd"),
        pytest.param(REPO, f"docker-pullable://{PINNED}", PINNED, id="Docker"),
        pytest.param("org/werf:2", f"docker.io/org/werf@{SHA}", f"org/werf@{SHA}", id="no host"),
        pytest.param("docker.io/org/werf:2", f"org/werf@{SHA}", f"docker.io/org/werf@{SHA}"),
        pytest.param("org/werf:2", f"index.docker.io/org/werf@{SHA}", f"org/werf@{SHA}"),
        pytest.param(
            "index.docker.io/org/werf:2",
            f"docker.io/org/werf@{SHA}",
            f"index.docker.io/org/werf@{SHA}",
        ),
        pytest.param("org/werf:2", f"registry-1.docker.io/org/werf@{SHA}", f"org/werf@{SHA}"),
        pytest.param("werf:2", f"docker.io/library/werf@{SHA}", f"werf@{SHA}", id="official"),
        pytest.param("docker.io/werf", f"library/werf@{SHA}", f"docker.io/werf@{SHA}"),
        pytest.param("werf", f"docker-pullable://werf@{SHA}", f"werf@{SHA}", id="cri-dockerd"),
        pytest.param("R.example/werf:2", f"r.example/werf@{SHA}", f"R.example/werf@{SHA}"),
        pytest.param("r.example:443/werf", f"r.example/werf@{SHA}", f"r.example:443/werf@{SHA}"),
        pytest.param("localhost/werf:2", f"localhost/werf@{SHA}", f"localhost/werf@{SHA}"),
        pytest.param(f"{REPO}:2@{SHA}", SHA, f"{REPO}:2@{SHA}", id="named by the spec"),
        pytest.param(f"localhost:5000/werf@{SHA}", PINNED, f"localhost:5000/werf@{SHA}"),
        pytest.param(TAGGED, "", None, id="nothing"),
        pytest.param(TAGGED, SHA, None, id="bare digest: containers/storage"),
        pytest.param(TAGGED, "6" * 64, None, id="bare ID: CRI-O"),
        pytest.param(TAGGED, f"docker://{SHA}", None, id="ID of Docker"),
        pytest.param(TAGGED, f"other.example/werf@{SHA}", None, id="another repository"),
        pytest.param("werf:2", f"docker.io/library/import-2026-01-01@{SHA}", None, id="loaded"),
        pytest.param("org/werf:2", f"docker.io/library/org/werf@{SHA}", None),
        pytest.param("org/werf:2", f"org.example/org/werf@{SHA}", None),
        pytest.param("r.example:5000/werf:2", f"r.example/werf@{SHA}", None, id="another port"),
        pytest.param("localhost/werf:2", f"docker.io/localhost/werf@{SHA}", None),
        pytest.param(TAGGED, f"{REPO}@sha256:{'6' * 63}", None, id="short digest"),
        pytest.param(TAGGED, f"{REPO}:2.75.0", None, id="tag"),
    ],
)
def test_the_image_is_pinned_by_what_the_pod_ran(
    image: str, reported: str, expected: str | None
) -> None:
    other = {"name": "login", "imageID": f"{REPO}@sha256:{'9' * 64}"}
    pods = [{"status": {"containerStatuses": [other, {"name": "werf", "imageID": reported}]}}]

    assert pinned_image(pods, image) == expected
    assert pinned_image([], TAGGED) is None


def test_a_runtime_may_report_an_id_and_the_digest_as_the_image() -> None:
    """CRI-O, as on OpenShift 4.15 and later."""
    status = {"name": "werf", "imageID": "5" * 64, "image": PINNED}
    pods = [{"status": {"containerStatuses": [status]}}]

    assert pinned_image(pods, TAGGED) == PINNED
    assert pinned_image(pods, "org/werf:2") is None
