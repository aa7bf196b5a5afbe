"""A rule as its copies are rendered from it: its spec, compiled once for a generation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from copyrator.api.rule_spec import Mode, RuleSpec
from copyrator.copies.cache.namespaces import TargetSet
from copyrator.copies.cache.rollout_barrier import RolloutBarrier
from copyrator.copies.cache.rules import Rule
from copyrator.copies.policy.rendering import NO_TEXTS, Text, Tree
from copyrator.copies.policy.sealing import Sealer


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
