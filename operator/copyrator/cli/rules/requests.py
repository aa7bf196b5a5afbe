"""`copyrator confirm-delete` and `rollout`: what a rule waits for, decided by an annotation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from copyrator.api import names
from copyrator.api.rollout import RolloutState, read_rollout_state
from copyrator.api.rule_status import RuleReason, read_rule_status, read_unconfirmed
from copyrator.api.text import count
from copyrator.cli.core.cluster import Target, cluster_options, run
from copyrator.cli.core.faults import Fault
from copyrator.cli.core.hints import hint_about
from copyrator.cli.core.objects import object_arguments, one
from copyrator.cli.core.output import Format, object_option, show_result
from copyrator.cli.core.reconcile import check_writes
from copyrator.cli.core.waiting import observed, response_timeout_option, result, shown, wait
from copyrator.cli.view import rows
from copyrator.kube import errors
from copyrator.kube.resources import RULES

Body = Mapping[str, Any]
Result = tuple[dict[str, Any], str]
"""The rule, and what was done."""


@click.command("confirm-delete")
@object_arguments("rules")
@cluster_options()
@response_timeout_option
@object_option
def confirm_delete(
    target: Target, what: str, name: str, timeout: float, shape: Format | None
) -> None:
    """Confirm that an edited rule may delete more of its copies than spec.maxDelete.

    Only the current generation of the rule is confirmed: each further edit is checked again.
    """
    show_result(*run(_confirm(target, what, name, timeout)), shape)


async def _confirm(
    target: Target,
    what: str,
    name: str,
    timeout: float,  # noqa: ASYNC109 - the user's
) -> Result:
    """Annotate the rule, at the version that was read.

    Raises:
        Fault: no deletion of it waits, or the rule was edited meanwhile.
    """
    async with target.connect() as client:
        namespace, name = target.locate(name)
        body = await one(client, what, namespace, name)
        deleted, generation = _waiting(what, body), body["metadata"]["generation"]
        patch = {
            "metadata": {
                "resourceVersion": body["metadata"]["resourceVersion"],
                "annotations": {names.ANN_CONFIRM_DELETE: str(generation)},
            }
        }
        try:
            body = await client.patch(RULES, namespace, name, patch)
        except errors.ConflictError:
            raise Fault(
                f"{shown(what, body)} was changed in the meantime; check it and try again: "
                f"{hint_about('describe', 'rule', body)}"
            ) from None
        body = await wait(client, what, body, timeout, _is_taken)
        text = f"{shown(what, body)}: the deletion of {deleted} by generation {generation}"
        return body, f"{text} is confirmed{result(body, waited=timeout > 0)}"


def _is_taken(body: Body) -> bool:
    """Whether the operator has taken the confirmation."""
    return rows.ready(body).get("reason") != RuleReason.DELETION_UNCONFIRMED


def _waiting(what: str, body: Body) -> str:
    """The copies whose deletion waits, with their number."""
    if observed(body) != body["metadata"]["generation"]:
        raise Fault(
            f"{shown(what, body)}: the operator hasn't reconciled its current generation yet; "
            "try again"
        )
    edit = read_unconfirmed(read_rule_status(body.get("status")))
    if edit is None or not edit.copies:
        raise Fault(f"{shown(what, body)}: no deletion is waiting for confirmation")
    return count(edit.copies, "copy", "copies")


@click.command()
@click.argument("action", type=click.Choice(["resume", "finish"]))
@object_arguments("rules")
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
    show_result(*run(_act(target, action, what, name, timeout)), shape)


async def _act(
    target: Target,
    action: str,
    what: str,
    name: str,
    timeout: float,  # noqa: ASYNC109 - the user's
) -> Result:
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

        def has_moved(seen: Body) -> bool:
            now = _running(seen)
            if now is None or now.ticket != state.ticket:
                return True
            check_writes(what, seen)  # it may be suspended meanwhile
            return False

        body = await wait(client, what, body, timeout, has_moved)
        done = "is resumed" if action == "resume" else "is finished without further steps"
        return body, f"{shown(what, body)}: the rollout {done}{result(body, waited=timeout > 0)}"


def _running(body: Body) -> RolloutState | None:
    state = read_rollout_state(read_rule_status(body.get("status")))
    return state if state is not None and state.running else None


def _state(what: str, body: Body) -> RolloutState:
    """The rollout that is in progress."""
    if (state := _running(body)) is not None:
        return state
    late = observed(body) != body["metadata"]["generation"]
    more = f"; check that the operator is running: {hint_about('why', 'rule', body)}"
    raise Fault(f"{shown(what, body)}: no rollout is in progress{more if late else ''}")
