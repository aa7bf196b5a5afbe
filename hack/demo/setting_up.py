"""The first chapter: what the chart installs, and the operator with its permissions."""

from collections import Counter

from demo.screen import Rows
from demo.steps import Chapter, Step
from demo.world import HOME, World


def install(world: World) -> Rows:
    """Render the chart and apply all of it that needs no container."""
    world.apply_chart()
    applied = Counter(one["kind"] for one in (*world.chart.crds, *world.chart.rights))
    return Rows(("APPLIED FROM THE CHART", "OBJECTS"), [(k, str(n)) for k, n in applied.items()])


def run(world: World) -> str:
    """Start the operator."""
    world.start_operator()
    return f"copyrator run, as system:serviceaccount:{HOME}:{world.chart.service_account}"


CHAPTER = Chapter(
    "Setup: the chart's CRDs and RBAC",
    (
        Step("helm renders the chart; CRDs and RBAC are applied", install),
        Step("The operator runs under the chart's service account, and is ready", run),
    ),
)
