"""The first chapter: the chart is installed, and the operator runs with its permissions."""

import json
from collections import Counter

from demo.stage import APPS, HOME, VALUES, Stage
from demo.steps import Chapter, Step


def install(stage: Stage) -> str:
    """Install the chart as a user does; its Deployment has no pods here."""
    stage.types(
        f"kubectl create namespace {APPS}",
        f"helm install copyrator charts/copyrator \\\n"
        f"  --values {VALUES} --namespace {HOME} --create-namespace",
        "kubectl wait --for=condition=Established \\\n"
        "  crd/copyrators.flant.com crd/bundles.operator.werf.dev",
    )
    chosen = "-o json -l app.kubernetes.io/name=copyrator"
    kinds = "crd,clusterrole,clusterrolebinding,role,rolebinding,serviceaccount,service"
    found = json.loads(stage.cluster.kubectl("get", kinds, "--all-namespaces", *chosen.split()))
    counted = Counter(one["kind"] for one in found["items"])
    return ", ".join(f"{number} {kind}" for kind, number in counted.items())


def run(stage: Stage) -> str:
    """Start the operator."""
    stage.start_operator()
    return f"copyrator run, as {stage.account}"


CHAPTER = Chapter(
    "Setup: the chart's CRDs and RBAC",
    (
        Step("helm installs the chart", install),
        Step("The operator runs under the chart's service account, and is ready", run),
    ),
)
