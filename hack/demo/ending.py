"""The last chapter: what it cost, the operator's end, and how to play on."""

from collections import Counter
from collections.abc import Sequence

from demo import bundles, rules
from demo.screen import Rows, Screen
from demo.stage import APPS, HOME, REPOSITORY, Stage
from demo.steps import Chapter, Step
from demo.waiting import StepFailed


def requests(stage: Stage) -> Rows:
    """Count the operator's requests in the audit log: none may have been forbidden."""
    events = [one for one in stage.cluster.audit_events() if one.user == stage.account]
    refused = {f"{one.verb} {one.resource}/{one.subresource}" for one in events if one.code == 403}
    if refused:
        msg = f"the chart lacks permissions: {', '.join(sorted(refused))}"
        raise StepFailed(msg)
    if not events:
        msg = f"the audit log has no request of {stage.account}"
        raise StepFailed(msg)
    writes = Counter(
        (one.verb, f"{one.resource}/{one.subresource}".rstrip("/"))
        for one in events
        if one.verb not in ("get", "list", "watch", "")
    )
    reads = sum(one.verb in ("get", "list", "watch") for one in events)
    rows = [(str(count), verb, resource) for (verb, resource), count in sorted(writes.items())]
    return Rows(("REQUESTS", "VERB", "RESOURCE"), [*rows, (str(reads), "get, list, watch", "")])


CHAPTER = Chapter(
    "Permissions",
    (Step("The audit log: no request of the operator was forbidden", requests),),
)


WISHES = f"""\
# One pull Secret for all namespaces, and the service accounts that use it:
kubectl apply -f examples/rules/image-pull-secrets.yaml
kubectl label namespace team-a pull-secrets=default
# The company's CA in all namespaces:
kubectl apply -f examples/rules/ca-bundle.yaml
# A certificate in the teams' namespaces:
kubectl apply -f examples/rules/certificate.yaml
# A RoleBinding for each namespace, rendered from a template:
kubectl apply -f examples/rules/namespace-provisioning.yaml
# A Secret of your own, by one command; a new namespace gets it, too:
kubectl -n {HOME} create secret generic mine --from-literal=user=me
copyrator create rule mine --source mine --to 'team-*'
kubectl create namespace team-e
copyrator why team-e/mine
# The sample bundle, which is always there:
copyrator resolve $COPYRATOR_REGISTRY/{REPOSITORY} '1.0.*' --insecure
# A bundle that is deployed, and again whenever a version is pushed:
copyrator create bundle shop -n {APPS} --insecure \\
  --from $COPYRATOR_REGISTRY/team/shop --version '1.2.*'
hack/run python -m localcluster push examples/charts/hello \\
  $COPYRATOR_REGISTRY/team/shop:1.2.1
copyrator reconcile bundle -n {APPS} shop
"""
"""What people want every day."""


def play_on(stage: Stage, screen: Screen, name: str) -> None:
    """Leave the examples running, and say how to use them."""
    operator = stage.operator
    assert operator is not None
    screen.chapter("Still running (KEEP=1), with a rule and a Bundle")
    stage.types(
        f"kubectl apply -f examples/{rules.FILE}",
        "for name in shop:1.2.0 shop:latest database:1.2.0; do\n"
        "  hack/run python -m localcluster push examples/charts/hello \\\n"
        "    $COPYRATOR_REGISTRY/team/$name; done",
    )
    bundles.create_bundle(stage)
    screen.typed(stage.take_shown())
    screen.note("In this directory:")
    screen.plain()
    screen.plain(f'eval "$(hack/run python -m localcluster env --name {name})"')
    screen.plain("kubectl get copyrators,bndl --all-namespaces")
    screen.plain("kubectl copyrator get copies -A")
    screen.plain(WISHES.rstrip())
    screen.plain("# How it went, the operator's metrics and its log:")
    screen.plain(f"copyrator history bundle -n {APPS} shop")
    screen.plain(f"curl -s http://127.0.0.1:{operator.port}/metrics | grep copyrator")
    screen.plain(f"tail -n 20 {operator.log}")
    screen.plain()
    screen.note("To look at it in a browser, until Ctrl-C: hack/run copyrator ui")
    screen.note("The documents can be followed here, too, from docs/quick-start.md on.")
    names = [name, f"{name}-staging"] if stage.staging else [name]
    screen.note(stop_command(names))


def stop_command(names: Sequence[str]) -> str:
    """Say how to stop the clusters of these names, and their operators with them."""
    commands = " && ".join(f"make cluster-down NAME={name}" for name in names)
    return f"To stop it, including the operator: {commands}"
