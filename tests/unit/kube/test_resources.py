"""Paths of objects and collections."""

import pytest

from copyrator.kube.errors import NotFound
from copyrator.kube.resources import JOBS


def test_a_name_is_one_segment_of_the_path() -> None:
    assert JOBS.path("ns") == "/apis/batch/v1/namespaces/ns/jobs"
    assert JOBS.path("ns", "a", "status") == "/apis/batch/v1/namespaces/ns/jobs/a/status"
    assert JOBS.path("ns", "../a?b").endswith("/jobs/..%2Fa%3Fb")


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_would_lead_to_another_resource_is_not_found(name: str) -> None:
    """The API server resolves these segments: a forged name of a Job read the namespace."""
    with pytest.raises(NotFound):
        JOBS.path("ns", name)
