"""The last chapter: what it cost, the operator's end, and how to play on."""

from collections import Counter

from demo import bundles, rules
from demo.screen import Rows, Screen
from demo.stage import APPS, HOME, REPOSITORY, Stage, example
from demo.steps import Chapter, Step
from demo.waiting import StepFailed


def requests(stage: Stage) -> Rows:
    """Count the operator's requests in the audit log: none may have been forbidden."""
    user = f"system:serviceaccount:{HOME}:{stage.chart.service_account}"
    events = [event for event in stage.cluster.audit_events() if event.user == user]
    refused = {f"{one.verb} {one.resource}/{one.subresource}" for one in events if one.code == 403}
    if refused:
        msg = f"the chart lacks permissions: {', '.join(sorted(refused))}"
        raise StepFailed(msg)
    if not events:
        msg = f"the audit log has no request of {user}"
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


def play_on(stage: Stage, screen: Screen, name: str) -> None:
    """Say how to use what was left running."""
    operator = stage.operator
    assert operator is not None
    screen.chapter("Still running (KEEP=1), with the examples applied again")
    stage.objects.apply(example(rules.FILE))
    bundles.apply_example(stage)
    screen.note("In this directory:")
    screen.plain()
    screen.plain(f'eval "$(hack/run python -m localcluster env --name {name})"')
    screen.plain()
    newer = f"{stage.cluster.registry}/{REPOSITORY}:1.0.5"
    for command in (
        "kubectl get copyrators,bndl --all-namespaces",
        "kubectl create namespace team-e",
        "hack/run copyrator get copies -A",
        "hack/run copyrator why team-e/registry-creds",
        f"kubectl -n {APPS} get bndl,jobs,pods",
        f"hack/run python -m localcluster.bundle push examples/charts/hello {newer}",
        f"curl -s http://127.0.0.1:{operator.port}/metrics | grep copyrator",
        f"tail -n 20 {operator.log}",
    ):
        screen.plain(command)
    screen.plain()
    screen.note("To look at it in a browser, until Ctrl-C: hack/run copyrator ui")
    screen.note(stop_command(name))


def stop_command(name: str) -> str:
    """Say how to stop the cluster of that name, and the operator with it."""
    return f"To stop it, including the operator: make cluster-down NAME={name}"
