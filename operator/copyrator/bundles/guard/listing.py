"""What the API server lets the pods of a guarded Job write, as text of a ConfigMap. Pure.

The policy of the chart (``templates/guard.yaml``; docs/facts/guard.md) refuses every other write.
A line is ``VERB/GROUP/KIND[:SUBRESOURCE]/NAMESPACE/NAME``: no namespace and no name has a slash.
"""

from __future__ import annotations

from dataclasses import dataclass

from copyrator.bundles.plan.operations import Operation
from copyrator.bundles.plan.rights import ServiceAccount


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedDeploy:
    """A deploy whose Job may write what was approved, and what werf itself writes."""

    account: ServiceAccount
    release: str
    namespace: str
    """Of the release."""
    operations: tuple[Operation, ...]
    """The approved ones."""
    revision: int
    """Of the release, that the deploy makes."""
    deployed_revision: int | None
    """That is deployed; None: none, or it isn't known."""
    history: int
    """``spec.releasesHistoryMax``."""
    as_account: frozenset[Operation] = frozenset()
    """Those of the operations that may run, or make a token, as the deploying account."""
    auto_rollback: bool = False
    """Also the inverse of each, and one more revision."""
    rollback_hooks: tuple[Operation, ...] = ()
    """Hooks that the deployed version brings for a rollback, as approved for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedUninstall:
    """An uninstall whose Job may delete what approved plans named."""

    account: ServiceAccount
    release: str
    namespace: str
    inventory: tuple[Operation, ...]
    """Each object that the approved plans of the release had, whatever the type."""
    hooks: tuple[Operation, ...]
    """Hooks for the uninstall, as approved."""
    revisions: int
    """The newest revision that an attempt made."""
