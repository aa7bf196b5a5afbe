"""How many requests a plan's Job makes: a plan and two renders, which ask only for little."""

from collections.abc import Iterable

from tests.e2e.standin.conftest import CONFIG_MAP, Charts, Werf
from tests.e2e.standin.test_plan_scripts import planned, shell
from tests.long import LONG

from localcluster import Cluster
from localcluster.audit import AuditEvent

__all__ = ["shell"]
OBJECTS = 500 if LONG else 50
MOST = 3
"""Times the requests of a plan alone."""


def test_a_plans_job_makes_at_most_three_times_the_requests_of_a_plan(
    werf: Werf,
    shell: Werf,
    charts: Charts,
    cluster: Cluster,
) -> None:
    more = {f"m{number}": CONFIG_MAP.replace("-cm", f"-{number}") for number in range(OBJECTS - 1)}
    charts.push(**more)
    requests = cluster.requests()
    assert werf.plan().code == 2
    alone = len(in_namespace(requests.all(), werf))
    requests = cluster.requests()

    found = planned(shell)

    assert len(found.operations) == OBJECTS
    assert found.render is not None
    whole = len(in_namespace(requests.all(), werf))
    assert OBJECTS <= alone <= whole <= MOST * alone, (alone, whole)


def in_namespace(events: Iterable[AuditEvent], werf: Werf) -> list[AuditEvent]:
    """Those in the namespace of the test, and those that discover what there is."""
    return [event for event in events if event.namespace == werf.namespace or not event.resource]
