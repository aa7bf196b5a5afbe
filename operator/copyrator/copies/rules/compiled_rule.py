"""A rule as its copies are rendered from it: its spec, compiled once for a generation.

Where a rule with ``spec.rollout`` may write changed content now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from copyrator.api.rule_spec import Mode, RuleSpec
from copyrator.copies.rules.rules import Rule
from copyrator.copies.seal.sealing import Sealer
from copyrator.copies.targets.namespaces import TargetSet
from copyrator.copies.template.rendering import NO_TEXTS, Text, Tree


class RolloutBarrier:
    """Closed until its rule has decided about the present content."""

    __slots__ = ("_everywhere", "_share", "portion", "step", "stopped")

    def __init__(self) -> None:
        self.close()

    def close(self) -> None:
        """Write no changed content."""
        self._everywhere = False
        self._share: frozenset[str] = frozenset()
        self.portion: Sequence[str] = ()
        """The namespaces that the open step adds."""
        self.step = 0
        """The step that it is open for; 0: none."""
        self.stopped = False
        """Nothing is changed at all, not even back to the new content."""

    def open(self) -> None:
        """Write all that is wanted: no rollout is in progress."""
        self.close()
        self._everywhere = True

    def admit(self, step: int, namespaces: Iterable[str], portion: Sequence[str] = ()) -> None:
        """Write changed content in these namespaces."""
        self.close()
        self.step = step
        self.portion = portion
        self._share = frozenset(namespaces)

    def stop(self) -> None:
        """Change nothing until the next decision."""
        self.stopped = True

    def holds(self, namespace: str, *, old: bool) -> bool:
        """Whether a copy there isn't written now: an old one, or one that was edited."""
        if self.stopped:
            return True
        return old and not self._everywhere and namespace not in self._share

    def __contains__(self, namespace: str) -> bool:
        return self._everywhere or namespace in self._share


@dataclass(slots=True, eq=False)
class CompiledRule:
    """What a rule renders copies from: its spec, compiled once for a generation."""

    rule: Rule
    spec: RuleSpec
    resource: str
    """The key of the copies' resource."""
    targets: TargetSet
    sealer: Sealer
    name: Text | None
    template: Tree | None
    active: bool = False
    """Everything that decides the precedence is known, and nothing forbids the rule to write."""
    barrier: RolloutBarrier | None = None
    """Where changed content may be written; None: everywhere."""
    _mark: bytes = field(default=b"", repr=False)

    @classmethod
    def of(
        cls,
        rule: Rule,
        spec: RuleSpec,
        *,
        resource: str,
        targets: TargetSet,
        sealer: Sealer,
        texts: Mapping[str, Text] = NO_TEXTS,
    ) -> CompiledRule:
        """Build it from a rule; what isn't among the ``texts`` is compiled now.

        Raises:
            TemplateError: a text isn't valid Jinja2.
        """
        named = spec.transform.name
        name = (texts.get(named) or Text(named)) if named else None
        template = Tree(spec.template.body, texts) if spec.template else None
        made = cls(rule, spec, resource, targets, sealer, name, template)
        made.barrier = RolloutBarrier() if spec.rollout else None
        return made

    @property
    def paused(self) -> bool:
        """Whether nothing is written (now): suspended, in Plan mode, or not active yet."""
        return not self.active or self.spec.suspend or self.spec.mode is Mode.PLAN

    @property
    def template_mark(self) -> bytes:
        """A keyed hash of the template as it is written."""
        if not self._mark and self.spec.template is not None:
            self._mark = self.sealer.digest({"template": self.spec.template.body})
        return self._mark

    def close_barrier(self) -> None:
        """Write no changed content until the rule's reconcile has decided where."""
        if self.barrier is not None:
            self.barrier.close()

    @property
    def follows_namespaces(self) -> bool:
        """Whether the copies' names depend on the target namespace."""
        if self.spec.sources and self.template is not None:
            return "namespace" in self.template.names
        return self.template is not None or (
            self.name is not None and "namespace" in self.name.names
        )
