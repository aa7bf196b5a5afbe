"""How many requests the Jobs of a gated Bundle make: renders ask only for little."""

from collections.abc import Callable

from bench.plans import MOST, RELEASES, measure
from tests.long import LONG

from localcluster import Cluster

OBJECTS = 500 if LONG else 50


def test_no_job_makes_more_than_three_times_the_requests_of_werfs_command_alone(
    cluster: Cluster, namespace: Callable[..., str]
) -> None:
    found = measure(cluster, [namespace(f"budget-{one}") for one in range(RELEASES)], OBJECTS)

    ratios = {name: figure for name, figure in found.items() if name.endswith("_ratio")}
    assert found["plan_alone"] >= OBJECTS
    assert all(1.0 <= ratio <= MOST for ratio in ratios.values()), found
