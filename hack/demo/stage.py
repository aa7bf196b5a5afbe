"""What the walk stands on: a control plane, the chart's rights, the operator, the examples."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import yaml

from demo.chart import ROOT, Rendered, render
from demo.objects import Manifest, Objects
from demo.process import OperatorProcess
from demo.waiting import NotYet, until
from localcluster import Cluster
from localcluster import bundle as bundle_registry
from localcluster.cluster import REGISTRY_ADDRESSES
from localcluster.signing import new_key

EXAMPLES = ROOT / "examples"
HOME = "copyrator"
"""The release's namespace."""
APPS = "apps"
"""The namespace that the demo deploys into."""
REPOSITORY = "team/hello"
"""The repository in the local registry."""
POLL_SECONDS = 2
"""Between two looks at the registry: ten minutes by default, too long for a demo."""


def example(name: str) -> list[Manifest]:
    """Return the manifests of a file in examples/, which the README shows too."""
    text = (EXAMPLES / name).read_text()
    return [document for document in yaml.safe_load_all(text) if document]


@dataclass
class Stage:
    """Everything that the steps act on.

    Args:
        cluster: the running control plane.
    """

    cluster: Cluster

    def __post_init__(self) -> None:
        self.objects = Objects(self.cluster)
        self.operator: OperatorProcess | None = None
        self._chart: Rendered | None = None
        self.key = new_key()
        """Signs what is pushed."""
        self.pushed: dict[str, str] = {}
        """Digests by version."""

    @property
    def chart(self) -> Rendered:
        """The chart, rendered once by helm with the values of the demo."""
        if self._chart is None:
            values: dict[str, Any] = {
                "log.format": "console",
                "bundles.timerInterval": POLL_SECONDS,
                "bundles.timerIdle": 1,
                "bundles.allowRegistryAddresses": [REGISTRY_ADDRESSES],
                "werf.namespaces": [APPS],
            }
            self._chart = render(self.cluster.helm, namespace=HOME, values=values)
        return self._chart

    def apply_chart(self) -> None:
        """Apply what the chart renders, but for the Deployment, and wait for the CRDs."""
        self.objects.create_namespaces(HOME, APPS)
        self.objects.apply(self.chart.crds)
        self.objects.apply(self.chart.rights)
        for crd in self.chart.crds:
            name = crd["metadata"]["name"]
            look = partial(self._established, name)
            until(look, seconds=20, what=f"the CRD {name} to be established")

    def start_operator(self) -> OperatorProcess:
        """Start the operator as the chart's service account and wait until it is ready."""
        account = self.chart.service_account
        kubeconfig = self.cluster.kubeconfig_for_service_account(HOME, account)
        self.operator = OperatorProcess(self.chart, HOME, kubeconfig, self.cluster.state_dir)
        self.operator.wait_ready(30)
        return self.operator

    def push(self, version: str) -> str:
        """Push the example chart in werf's bundle form and return its digest.

        Args:
            version: the tag, and so the chart's version; what the chart deploys shows it.
        """
        chart = EXAMPLES / "charts" / "hello"
        digest = bundle_registry.push(chart, self.cluster.registry, REPOSITORY, version)
        self.pushed[version] = digest
        return digest

    def _established(self, name: str) -> None:
        crd = self.objects.get("customresourcedefinitions", name)
        conditions = (crd or {}).get("status", {}).get("conditions", [])
        if not any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
            raise NotYet(f"conditions {conditions}")
