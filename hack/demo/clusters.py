"""Two clusters on screen (CLUSTERS=2): a promotion by evidence in the registry, a pulled Secret."""

from demo import setting_up
from demo.bundles import deployed, until_bundle
from demo.objects import Manifest, condition
from demo.rules import wait_copies
from demo.screen import Rows
from demo.stage import APPS, HOME, REPOSITORY, Stage
from demo.steps import Chapter, Step
from localcluster.signing import new_key, private_key, public_key

NAME = "site"
VERSION = "2.0.0"
AFTER = "5s"
RULE = "clusters/copied-secret.yaml"


def install(stage: Stage) -> str:
    """Install the chart in the cluster of staging, where an operator of its own runs."""
    made = setting_up.install(_staging(stage))
    _staging(stage).start_operator()
    return made


def wait_for_evidence(stage: Stage) -> Rows:
    """Make a key and a Bundle here, and see that it waits for staging."""
    key = new_key()
    pem = {"key.pem": private_key(key)}
    _staging(stage).objects.apply([_object("Secret", "attest-key", stringData=pem)])
    keys = {"staging.pub": public_key(key)}
    stage.objects.apply([_object("ConfigMap", "staging-keys", data=keys)])
    stage.shows("# A private key in a Secret of staging, its public key in a ConfigMap here")
    stage.types(
        "hack/run python -m localcluster push examples/charts/hello \\\n"
        f"  $COPYRATOR_REGISTRY/{REPOSITORY}:{VERSION}",
        _apply_bundle(
            "promoteFrom: {attestations: [{environment: staging, cosign: {keysFrom:\n"
            "      {kind: ConfigMap, name: staging-keys}}}]}"
        ),
    )

    def look(bundle: Manifest) -> Manifest | None:
        ready = condition(bundle, "Ready")
        return ready if ready.get("reason") == "NotPromoted" else None

    ready = until_bundle(stage, NAME, look, f"{VERSION} to wait for staging")
    return Rows(("BUNDLE", "READY", "WHY"), [(NAME, ready["reason"], ready["message"])])


def attest(stage: Stage) -> Rows:
    """Deploy it in staging, which attests it."""
    staging = _staging(stage)
    staging.types(
        _apply_bundle(
            f"attest: {{environment: staging, after: {AFTER},\n"
            "      keyFrom: {secretName: attest-key, key: key.pem}}"
        )
    )

    def look(bundle: Manifest) -> Manifest | None:
        records = bundle.get("status", {}).get("attest", ())
        return records[0] if [one["state"] for one in records] == ["Attested"] else None

    one = until_bundle(staging, NAME, look, f"{VERSION} to be attested in staging")
    row = (one["digest"][:15], one["state"], str(one["seconds"]), one["issuedAt"])
    return Rows(("DIGEST", "STATE", "SECONDS", "ISSUED AT"), [row])


def promote(stage: Stage) -> Rows:
    """Wait for the deploy here."""
    bundle = until_bundle(stage, NAME, deployed, f"{VERSION} to be deployed here")
    stage.types(f"copyrator attest show --insecure $COPYRATOR_REGISTRY/{REPOSITORY}:{VERSION}")
    there = bundle["status"]["deployed"]
    row = (NAME, "Deployed", str(there["version"]), str(there["digest"])[:15])
    return Rows(("BUNDLE", "READY", "TAG", "DIGEST"), [row])


def pull(stage: Stage) -> Rows:
    """Copy a Secret of staging by a credential that may read it alone."""
    _staging(stage).types(
        "kubectl create namespace infra",
        "kubectl -n infra create secret generic registry-creds \\\n"
        "  --from-literal=password=$RANDOM",
    )
    stage.types(
        "KUBECONFIG=$STAGING copyrator remote grant hub --server $STAGING_SERVER \\\n"
        f"  --source Secret/infra/registry-creds 2>/dev/null |\n"
        f"  kubectl -n {HOME} apply --server-side -f -",
        f"copyrator remote check {HOME}/hub",
        f"kubectl apply -f examples/{RULE}",
    )
    return _wait_copies(stage)


def change(stage: Stage) -> Rows:
    """Change it there."""
    _staging(stage).types(
        "kubectl -n infra patch secret registry-creds \\\n"
        '  --patch "stringData: {password: new-$RANDOM}"'
    )
    return _wait_copies(stage)


def remove(stage: Stage) -> str:
    """Delete the rule and both Bundles."""
    stage.types(
        f"kubectl -n {HOME} delete copyrator registry-creds",
        f"kubectl -n {APPS} delete bndl {NAME}",
    )
    _staging(stage).types(f"kubectl -n {APPS} delete bndl {NAME}")
    return "Statements in the registry stay: deleting a Bundle withdraws nothing."


def _staging(stage: Stage) -> Stage:
    assert stage.staging is not None
    return stage.staging


def _object(kind: str, name: str, **content: object) -> Manifest:
    metadata = {"name": name, "namespace": APPS}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **content}


def _apply_bundle(part: str) -> str:
    """The command that applies the Bundle with a part of its spec; it is the same in both."""
    return f"""kubectl apply -f - <<<"
  apiVersion: operator.werf.dev/v1
  kind: Bundle
  metadata: {{name: {NAME}, namespace: {APPS}}}
  spec:
    registry: $COPYRATOR_REGISTRY
    repo: {REPOSITORY}
    insecure: true
    version: 2.0.*
    {part}
\""""


def _wait_copies(stage: Stage) -> Rows:
    return wait_copies(stage, "registry-creds", (_staging(stage), "infra"))


CHAPTER = Chapter(
    "Two clusters: they share a registry, and no credentials of each other",
    (
        Step("Staging is a cluster of its own, with its operator", install),
        Step(f"{VERSION} is pushed; production waits until staging attests it", wait_for_evidence),
        Step(f"Staging deploys it, and attests that it stood for {AFTER}", attest),
        Step("Production reads that in the registry, and deploys the same digest", promote),
        Step("copyrator remote grant: a Secret of staging is copied here", pull),
        Step("The Secret is changed in staging, and so are the copies", change),
        Step("The rule and the Bundles are deleted", remove),
    ),
)
