"""A mutating admission webhook, as injectors of sidecars and queues have one."""

import base64
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from tests.e2e.secrecy.quoting import review, served

from localcluster import Cluster
from localcluster.api import ApiStatusError

HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
Patch = list[dict[str, Any]]


@contextmanager
def mutating(
    cluster: Cluster,
    namespace: str,
    resource: str,
    patch: Callable[[dict[str, Any]], Patch],
    *,
    selector: dict[str, Any] | None = None,
    operations: Sequence[str] = ("CREATE",),
    labels: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """Change what is created in a namespace, until the end.

    Args:
        cluster: where.
        namespace: a namespace's name.
        resource: `pods`, `jobs.batch`, or another one of the core API.
        patch: returns the JSON patch for an object, before which it isn't written.
        selector: of the objects that are changed, as a webhook's objectSelector.
        operations: CREATE, and others too.
        labels: that the selector takes, of the object `probe` whose creation is asked for first.
    """

    asked = threading.Event()

    def change(made: dict[str, Any]) -> dict[str, Any]:
        asked.set()
        changes = base64.b64encode(json.dumps(patch(made)).encode()).decode()
        return {"allowed": True, "patchType": "JSONPatch", "patch": changes}

    api, pki = cluster.api(), cluster.layout.pki
    plural, _, group = resource.partition(".")
    name = f"{namespace}-{plural}"
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "resources": [plural]}
    with served(lambda request: review(request, change), pki) as at:
        ca = base64.b64encode((pki / "ca.crt").read_bytes()).decode()
        hook = {
            "name": "injector.example.com",
            "clientConfig": {"url": f"https://{at}/", "caBundle": ca},
            "rules": [{**rule, "operations": [*operations]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "objectSelector": selector or {},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        api.create(HOOKS, {"metadata": {"name": name}, "webhooks": [hook]})
        try:
            while not asked.is_set():  # until the API server knows it
                _probe(cluster, namespace, plural, group, labels or {})
            yield
        finally:
            api.delete(f"{HOOKS}/{name}")


def _probe(
    cluster: Cluster, namespace: str, plural: str, group: str, labels: Mapping[str, str]
) -> None:
    """Create something for the webhook, as a dry run; it may be refused afterwards."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "probe", "image": "probe"}]}
    spec = {"template": {"spec": pod}} if plural == "jobs" else pod
    path = f"/apis/{group}/v1" if group else "/api/v1"
    body = {"metadata": {"name": "probe", "labels": {**labels}}, "spec": spec}
    with suppress(ApiStatusError):
        cluster.api().create(f"{path}/namespaces/{namespace}/{plural}?dryRun=All", body)
