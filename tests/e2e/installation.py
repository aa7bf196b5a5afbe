"""The chart on a cluster without its Deployment, and its operator as a process of the test's."""

import contextlib
import json
import secrets
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.e2e.operator_process import HOME, RUN, OperatorProcess, until
from tests.e2e.vanishing import vanish

from copyrator.settings.config import KNOWN_KINDS
from demo.chart import Rendered, render
from localcluster import Api, Cluster
from localcluster.api import ApiStatusError
from localcluster.audit import WRITE_VERBS, AuditEvent

RULES = "/apis/flant.com/v1/namespaces/{}/copyrators"
KINDS = {"rules.kinds": list(KNOWN_KINDS)}
"""Values of the chart: every kind that rules are known to be used for."""
KINDS_SETTING = {"COPYRATOR_KINDS": ",".join(KNOWN_KINDS)}
"""The same as the operator's variable."""
BUNDLES = "/apis/operator.werf.dev/v1/namespaces/{}/bundles"


def apply(api: Api, manifests: Iterable[dict[str, Any]], **parameters: str) -> None:
    """What `kubectl apply --server-side --force-conflicts` does, without a process."""
    for manifest in manifests:
        api.request(
            "PATCH",
            object_path(manifest),
            manifest,
            content_type="application/apply-patch+yaml",
            parameters={"fieldManager": "kubectl", "force": "true", **parameters},
        )


def delete(api: Api, manifests: Iterable[dict[str, Any]]) -> None:
    """What `kubectl delete --ignore-not-found` does, without a process."""
    paths = [object_path(manifest) for manifest in manifests]

    def there(ask: Callable[[str], Any], path: str) -> bool:
        try:
            ask(path)
        except ApiStatusError as error:
            if error.code != 404:
                raise
            return False
        return True

    for path in paths:
        there(api.delete, path)
    until(lambda: not any(there(api.get, path) for path in paths), lambda: f"{paths} are gone")


def object_path(manifest: dict[str, Any]) -> str:
    """The path of an object."""
    return f"{collection_of(manifest)}/{quote(manifest['metadata']['name'])}"


def collection_of(manifest: dict[str, Any]) -> str:
    """The path of what an object is one of."""
    version, namespace = manifest["apiVersion"], manifest["metadata"].get("namespace")
    place = f"/namespaces/{namespace}" if namespace else ""
    plural = _plural(manifest["kind"].lower())
    return f"/{'apis' if '/' in version else 'api'}/{version}{place}/{plural}"


def _plural(kind: str) -> str:
    if kind == "copyratorrule":
        return "copyrators"
    if kind.endswith("y"):
        return f"{kind[:-1]}ies"
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"


def install(cluster: Cluster, namespace: str = HOME, chart: Rendered | None = None) -> Path:
    """Apply the chart but for its Deployment; return a kubeconfig for its service account."""
    chart = chart or rendered(cluster, namespace, None)
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    api = cluster.api()
    if any(one["kind"] == "ValidatingAdmissionPolicyBinding" for one in chart.rights):
        _keep_parameters(api)
    apply(api, [home, *chart.rights])
    _apply_crds(api, chart.crds)
    return cluster.kubeconfig_for_service_account(namespace, chart.service_account)


def _keep_parameters(api: Api) -> None:
    """Let ConfigMaps be some policy's parameters as long as the API server lives.

    Else they freeze for the next installation once those of the last one are gone
    (kubernetes#130887).
    """
    name, version = "parameters.copyrator.test", "admissionregistration.k8s.io/v1"
    rule = {"apiGroups": ["copyrator.test"], "apiVersions": ["v1"], "resources": ["none"]}
    policy = {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {"resourceRules": [{**rule, "operations": ["CREATE"]}]},
        "validations": [{"expression": "true"}],
    }
    reference = {"name": "none", "namespace": "default", "parameterNotFoundAction": "Allow"}
    binding = {"policyName": name, "validationActions": ["Deny"], "paramRef": reference}
    specs = {"": policy, "Binding": binding}
    apply(
        api,
        [
            {
                "apiVersion": version,
                "kind": f"ValidatingAdmissionPolicy{kind}",
                "metadata": {"name": name},
                "spec": spec,
            }
            for kind, spec in specs.items()
        ],
    )


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_as_applied: dict[str, tuple[list[dict[str, Any]], dict[str, str]]] = {}
"""Of each API server the CRDs that were applied last, and their versions when that was done."""


def _apply_crds(api: Api, crds: list[dict[str, Any]]) -> None:
    """To apply them takes the API server a quarter of a second, even where nothing changes."""
    if _as_applied.get(api.server) == (crds, _versions(api, crds)):
        return
    apply(api, crds)
    until(lambda: serves(api), "the API server serves rules and Bundles")
    _as_applied[api.server] = crds, _versions(api, crds)


def _versions(api: Api, crds: list[dict[str, Any]]) -> dict[str, str]:
    ours = {one["metadata"]["name"] for one in crds}
    found = {one["name"]: one for one in api.metadata(CRDS) if one["name"] in ours}
    return {name: f"{one['uid']} {one['resourceVersion']}" for name, one in found.items()}


def delete_crds(api: Api, *names: str) -> None:
    """Delete the CRDs of these names that exist, and wait until they are gone.

    The API server first lists a kind's objects, which fails while it begins to serve the kind
    ("storage is (re)initializing"), as when nobody has asked for it since its CRD was changed. When
    it tries again, before it has seen what it wrote of that into the CRD, a conflict ends the try,
    and that event begins none: the CRD's condition Terminating is all that has changed. So it
    pauses until its next round, up to 5 minutes later. Any other change ends the pause.
    Source: apiextensions-apiserver, pkg/controller/finalizer/crd_finalizer.go.
    """

    def left() -> set[str]:
        return {one["name"] for one in api.metadata(CRDS)} & {*names}

    def are_gone() -> bool:
        for name in left():
            again = {"copyrator.test/again": str(time.monotonic() // 2)}
            with contextlib.suppress(ApiStatusError):  # it is gone by now
                api.patch(f"{CRDS}/{name}", {"metadata": {"annotations": again}})
        return not left()

    for name in left():
        api.delete(f"{CRDS}/{name}")
    until(are_gone, lambda: f"{left()} are gone")


def serves(api: Api) -> bool:
    """Right after its CRD is made, a resource may be answered with 404 or 429."""
    try:
        for path in ("flant.com/v1/copyrators", "operator.werf.dev/v1/bundles"):
            # None of them: some may be nested deeper than Python's parser goes.
            api.get(f"/apis/{path}", fieldSelector="metadata.name=no-such")
    except ApiStatusError:
        return False
    return True


def uninstall(cluster: Cluster, namespace: str) -> None:
    """Take away what `install` made, but for the CRDs, and all that is in its namespace."""
    api = cluster.api()
    rights = "/apis/rbac.authorization.k8s.io/v1"
    for path in (
        f"{rights}/clusterrolebindings/{namespace}:copyrator",
        f"{rights}/clusterroles/{namespace}:copyrator",
        f"{rights}/clusterrolebindings/{namespace}:copyrator-guard",
        f"{rights}/clusterroles/{namespace}:copyrator-guard",
    ):
        try:
            api.delete(path)
        except ApiStatusError as error:
            if error.code != 404:
                raise
    vanish(cluster, [namespace])


@dataclass
class Operator:
    """An installation of the chart whose operator a test starts, stops and starts again."""

    cluster: Cluster
    namespace: str
    kubeconfig: Path
    user: str
    """The operator, as the audit log names it."""
    log: Path
    settings: dict[str, str] = field(default_factory=dict)
    """Variables that a test adds."""
    flags: tuple[str, ...] = ()
    process: OperatorProcess | None = None

    def start(self) -> None:
        settings = {"NAMESPACE": self.namespace, **self.settings}
        command = (*RUN, *self.flags)
        self.process = OperatorProcess(
            self.kubeconfig, self.log, command=command, settings=settings
        )
        try:
            self.process.wait_started()
        except BaseException:
            self.process.kill()  # else it serves the next tests' Bundles
            raise

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        assert self.process is not None
        code = self.process.stop(number)
        self.process = None
        return code

    def writes(
        self, since: int, *, at: Collection[str] | None = None, but: tuple[str, ...] = ()
    ) -> list[AuditEvent]:
        """The operator's writes since a place in the audit log, but for its Lease and reviews.

        Only those in the namespaces `at`, where given: in others it may still serve what an earlier
        test left, and its namespaces' end.
        """
        return [
            event
            for event in self.cluster.audit_events(since)
            if event.user == self.user
            and (at is None or event.namespace in at)
            and event.verb in WRITE_VERBS
            and event.resource not in ("leases", "subjectaccessreviews", *but)
        ]


def variables(chart: Rendered) -> dict[str, str]:
    """What the chart's container gets, but for what says where its pod runs."""
    assert chart.container["args"] == ["run"]
    return {one["name"]: one["value"] for one in chart.container["env"] if "value" in one}


_texts: dict[str, str] = {}
"""The chart in the namespace PLACEHOLDER, by its values: to start helm for each takes long."""
PLACEHOLDER = "op-a-place"


def rendered(
    cluster: Cluster,
    namespace: str,
    values: Mapping[str, Any] | None = None,
    *,
    policy: bool = False,
) -> Rendered:
    """The chart with some values (see `render`), by helm for the first namespace."""
    key = json.dumps([values, policy], sort_keys=True)
    if key not in _texts:
        chart = render(cluster.helm, namespace=PLACEHOLDER, values=values, policy=policy)
        _texts[key] = json.dumps([chart.crds, chart.rights, chart.deployment])
    return Rendered(*json.loads(_texts[key].replace(PLACEHOLDER, namespace)))


@contextlib.contextmanager
def installed(
    cluster: Cluster,
    log: Path,
    settings: dict[str, str] | None = None,
    *flags: str,
    values: dict[str, Any] | None = None,
    as_rendered: bool = False,
    policy: bool = False,
) -> Iterator[Operator]:
    """An installation in a namespace of its own, not started yet; `values` are the chart's.

    Its process gets the variables of the chart's container too if it is `as_rendered`. At the end
    the operator is stopped, and nothing went wrong in it unseen.
    """
    namespace = f"op-{secrets.token_hex(3)}"
    chart = rendered(cluster, namespace, values, policy=policy)
    kubeconfig = install(cluster, namespace, chart)
    user = f"system:serviceaccount:{namespace}:{chart.service_account}"
    given = {**variables(chart), "POD_NAMESPACE": namespace} if as_rendered else {}
    operator = Operator(cluster, namespace, kubeconfig, user, log, given | (settings or {}), flags)
    try:
        yield operator
        if operator.process is not None:
            assert operator.stop() == 0
    finally:
        if operator.process is not None:
            operator.process.kill()
        uninstall(cluster, namespace)
    said = log.read_text() if log.exists() else ""
    assert "Traceback" not in said, said
