"""A rule that is suspended stays Ready, or not, as it was, whatever happens meanwhile."""

from tests.component.copies.conftest import (
    HOME,
    Operator,
    edit_rule,
    reason,
    status_of,
    synced,
)
from tests.component.kube.fake_api import until


def ready(cluster):
    conditions = status_of(cluster)["conditions"]
    return *(one["status"] for one in conditions[:3]), conditions[0]["message"]


async def test_ready_keeps_its_status_over_edits_and_restarts(cluster, operator):
    await synced(cluster, "team-a")
    before = "suspended; before: Synced: 1 copy is up to date"

    edit_rule(cluster, suspend=True)
    await until(lambda: reason(cluster) == "Suspended")
    assert ready(cluster) == ("True", "False", "False", before)

    edit_rule(cluster, limit="x")
    await until(lambda: reason(cluster) == "InvalidSpec")
    assert ready(cluster)[:3] == ("False", "False", "True")
    edit_rule(cluster, limit=10)
    await until(lambda: reason(cluster) == "Suspended")
    edited = ("True", "False", "False", f"{before}; edited while suspended")
    assert ready(cluster) == edited

    await operator.stop()
    cluster.gone("configmaps", HOME, "app")
    second = Operator(cluster)
    await second.start()
    await until(lambda: status_of(cluster)["sources"] == 0, "it has seen that the source is gone")
    assert ready(cluster) == edited

    edit_rule(cluster, suspend=False)
    await until(lambda: reason(cluster) == "SourceNotFound")
    assert "suspension" not in status_of(cluster)

    edit_rule(cluster, suspend=True)
    await until(lambda: reason(cluster) == "Suspended")
    assert ready(cluster)[:3] == ("False", "False", "False")
    assert ready(cluster)[3].startswith("suspended; before: SourceNotFound: ")
    await second.stop()
