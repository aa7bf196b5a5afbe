"""`copyrator rollout`: continues a stopped rollout of a rule, or ends one at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from copyrator.api import names
from copyrator.api.rollout import RolloutState, read_rollout_state
from copyrator.api.rule_status import read_rule_status
from copyrator.cli.core.cluster import Target, cluster_options, run
from copyrator.cli.core.faults import Fault
from copyrator.cli.core.hints import hint_about
from copyrator.cli.core.objects import What, complete_names, one
from copyrator.cli.core.output import Format, object_option, prose, show
from copyrator.cli.core.reconcile import check_writes
from copyrator.cli.core.waiting import observed, response_timeout_option, result, shown, wait
from copyrator.kube.resources import RULES


@click.command()
@click.argument("action", type=click.Choice(["resume", "finish"]))
@click.argument("what", type=What("rules"))
@click.argument("name", metavar="[NAMESPACE/]NAME", shell_complete=complete_names)
@cluster_options()
@response_timeout_option
@object_option
def rollout(
    *, target: Target, action: str, what: str, name: str, timeout: float, shape: Format | None
) -> None:
    """Resume the stopped rollout of a rule, or finish one at once.

    resume begins the next step, whatever the health of the consumers is; the step after that is
    judged again. finish writes the new content to all copies now, without further steps.
    """
    body, sentence = run(_act(target, action, what, name, timeout))
    if shape is None:
        prose([sentence])
    else:
        show(body, shape)


async def _act(
    target: Target,
    action: str,
    what: str,
    name: str,
    timeout: float,  # noqa: ASYNC109 - the user's
) -> tuple[dict[str, Any], str]:
    """Annotate the rule, and wait until the operator has taken it.

    Raises:
        Fault: no rollout is in progress, none is stopped, or the rule writes nothing now.
    """
    async with target.connect() as client:
        namespace, name = target.locate(name)
        body = await one(client, what, namespace, name)
        state = _state(what, body)
        check_writes(what, body)  # a request that waits unseen would be handled much later
        if action == "resume":
            if state.stopped is None:
                raise Fault(f"{shown(what, body)}: its rollout isn't stopped and continues")
            marks = {names.ANN_ROLLOUT_RESUME: state.ticket}
        else:
            marks = {names.ANN_ROLLOUT_FINISH: state.id}
        body = await client.patch(RULES, namespace, name, {"metadata": {"annotations": marks}})
        before = state.ticket

        def moved(seen: Mapping[str, Any]) -> bool:
            if _has_moved(seen, before):
                return True
            check_writes(what, seen)  # it may be suspended meanwhile
            return False

        body = await wait(client, what, body, timeout, moved)
        done = "is resumed" if action == "resume" else "is finished without further steps"
        return body, f"{shown(what, body)}: the rollout {done}{result(body, waited=timeout > 0)}"


def _state(what: str, body: Mapping[str, Any]) -> RolloutState:
    """The rollout that is in progress."""
    state = read_rollout_state(read_rule_status(body.get("status")))
    if state is None or not state.running:
        late = observed(body) != body["metadata"]["generation"]
        more = f"; check that the operator is running: {hint_about('why', 'rule', body)}"
        raise Fault(f"{shown(what, body)}: no rollout is in progress{more if late else ''}")
    return state


def _has_moved(body: Mapping[str, Any], ticket: str) -> bool:
    """Whether the rollout has left the step at which it was."""
    state = read_rollout_state(read_rule_status(body.get("status")))
    return state is None or not state.running or state.ticket != ticket
