"""The first chapter: what the chart installs, and the operator with its permissions."""

from collections import Counter

from demo.screen import Rows
from demo.stage import HOME, Stage
from demo.steps import Chapter, Step


def install(stage: Stage) -> Rows:
    """Render the chart and apply all of it that needs no container."""
    stage.apply_chart()
    applied = Counter(one["kind"] for one in (*stage.chart.crds, *stage.chart.rights))
    return Rows(("APPLIED FROM THE CHART", "OBJECTS"), [(k, str(n)) for k, n in applied.items()])


def run(stage: Stage) -> str:
    """Start the operator."""
    stage.start_operator()
    return f"copyrator run, as system:serviceaccount:{HOME}:{stage.chart.service_account}"


CHAPTER = Chapter(
    "Setup: the chart's CRDs and RBAC",
    (
        Step("helm renders the chart; CRDs and RBAC are applied", install),
        Step("The operator runs under the chart's service account, and is ready", run),
    ),
)
