"""What the pages can do to a rule or Bundle.

A decision about a plan has a page of its own (decision_page.py); all else is asked for before it is
done.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from copyrator.api import names
from copyrator.cli.bundles import approve
from copyrator.cli.bundles.approve import APPROVE, REJECT, DecisionVerb, ShownPlan
from copyrator.cli.core import reconcile
from copyrator.cli.core.objects import one
from copyrator.cli.core.output import said
from copyrator.cli.core.reconcile import set_suspend

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient


@dataclass(frozen=True, slots=True)
class Verb:
    """One thing to do: what it means, and how it is done; it returns what was done."""

    effects: Mapping[str, str]
    """By the kind of the object: ``rules``, ``bundles``."""
    act: Callable[[KubeClient, str, dict[str, Any]], Coroutine[Any, Any, str]]
    """With the kind and the object."""


async def _suspend(client: KubeClient, what: str, body: dict[str, Any]) -> str:
    return (await set_suspend(client, what, body, value=True, timeout=0))[1]


async def _resume(client: KubeClient, what: str, body: dict[str, Any]) -> str:
    return (await set_suspend(client, what, body, value=False, timeout=0))[1]


async def _reconcile(client: KubeClient, what: str, body: dict[str, Any]) -> str:
    rule = what == "rules"
    annotation = names.ANN_RULE_REQUESTED_AT if rule else names.ANN_REQUESTED_AT
    await reconcile.annotated(client, what, body, annotation)
    return "It is annotated; the operator reconciles it now."


VERBS: Final[Mapping[str, Verb]] = {
    "suspend": Verb(
        {
            "rules": "No copy is written or deleted for it until it is resumed.",
            "bundles": "Nothing is deployed for it until it is resumed; its registry is polled.",
        },
        _suspend,
    ),
    "resume": Verb(
        {
            "rules": "The operator writes and deletes its copies again.",
            "bundles": "The operator deploys for it again.",
        },
        _resume,
    ),
    "reconcile": Verb(
        {
            "rules": "The operator retries its failed copies at once.",
            "bundles": "The operator polls its registry, and deploys its version even if that is "
            "deployed already.",
        },
        _reconcile,
    ),
}

DECISIONS: Final[Mapping[str, DecisionVerb]] = {one.verb: one for one in (APPROVE, REJECT)}

_TAKEN: Final[Mapping[str, str]] = {
    APPROVE.verb: "You approved plan {}; it is deployed as soon as its other gates pass.",
    REJECT.verb: "You rejected plan {}; it isn't deployed.",
}


async def act(client: KubeClient, verb: str, what: str, key: tuple[str, str]) -> str:
    """Do it to the object as it is now; return a sentence.

    Raises:
        Fault: it can't be done.
        ApiError: the API server refused it.
    """
    return await VERBS[verb].act(client, what, await one(client, what, *key))


async def decide(client: KubeClient, verb: str, key: tuple[str, str], shown: ShownPlan) -> str:
    """Approve or reject the plan that was shown; return a sentence.

    Raises:
        Fault: the user may not, or the plan isn't there any more, or was decided meanwhile.
        ApiError: the API server refused it.
    """
    await approve.decide(client, DECISIONS[verb], await one(client, "bundles", *key), shown)
    return _TAKEN[verb].format(said(shown.id))
