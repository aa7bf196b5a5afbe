"""What `plan` plans: rules of the cluster or of files, and what else the files hold.

Sources and namespaces in the files count as applied.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from copyrator.api import names
from copyrator.api.fields import InvalidSpec
from copyrator.api.keys import ObjectName
from copyrator.api.rule_spec import Source
from copyrator.api.times import format_time
from copyrator.cli.core.cluster import Target
from copyrator.cli.core.faults import Fault
from copyrator.cli.core.hints import hint
from copyrator.cli.offline.manifests import Manifest
from copyrator.cli.offline.validate import check, is_ours
from copyrator.cli.rules.dry_run import DryRun, DryRunClient
from copyrator.copies.rules.rules import Rule
from copyrator.copies.sources.bindings import SourceBinding
from copyrator.copies.sources.records import SourceReader
from copyrator.copies.targets.namespaces import Namespace
from copyrator.copies.template.rules import binding_of
from copyrator.kube import errors
from copyrator.kube.resources import Resource


@dataclass(frozen=True, slots=True)
class Files:
    """The manifests of -f; a name without a namespace is in the command's."""

    manifests: Sequence[Manifest]
    target: Target

    def check(self) -> None:
        """Refuse what `validate` refuses, before anything is sent.

        Raises:
            Fault: all problems, each with its file and line; or there is no rule.
        """
        ours = (one for one in self.manifests if is_ours(one) and one.kind != names.BUNDLE_KIND)
        found = [str(problem) for one in ours for problem in check(one)]
        if found:
            raise Fault("\n".join(found))
        if not any(one.kind == names.RULE_KIND for one in self.manifests):
            source = self.manifests[0].source if self.manifests else "rule.yaml"
            raise Fault(
                "the file has no CopyratorRule; Bundles are checked by: "
                f"{hint('validate', '-f', source)}"
            )

    def rules(self) -> Iterator[Manifest]:
        """The rules."""
        return (one for one in self.manifests if one.kind == names.RULE_KIND)

    def namespace_of(self, manifest: Manifest) -> str:
        """The namespace that a manifest would be applied to."""
        return manifest.namespace or self.target.namespace

    def namespaces(self) -> dict[str, Namespace]:
        """The Namespaces in the files, by name."""
        found = {}
        for one in self.manifests:
            if one.kind == "Namespace" and one.name:
                space = Namespace.from_metadata(one.body)
                labels = {"kubernetes.io/metadata.name": one.name, **space.labels}
                found[one.name] = Namespace(one.name, labels=labels, annotations=space.annotations)
        return found

    async def stored(
        self, client: DryRunClient, resource: Resource, manifest: Manifest
    ) -> dict[str, Any]:
        """An object as the API server would store it.

        Raises:
            Fault: it would be refused; the message names the file.
        """
        namespace = self.namespace_of(manifest)
        try:
            return await dry_object(client, resource, namespace, manifest.body)
        except errors.NotFound as error:
            if not error.namespace_missing:
                raise
            if namespace in self.namespaces():
                return _made_up(resource, namespace, manifest.body)
            raise Fault(
                f"{manifest.where}: the namespace {namespace} doesn't exist; create it, or add it "
                "to the files"
            ) from None
        except (errors.Invalid, errors.BadRequest, errors.Forbidden) as error:
            raise Fault(f"{manifest.where}: {error.message}") from None

    def assume_namespaces(self, dry_run: DryRun) -> None:
        """Let the namespaces exist that the files would create."""
        for name, space in self.namespaces().items():
            if dry_run.context.namespaces.get(name) is None:
                dry_run.context.namespaces.put(space)
                dry_run.client.assumed.add(name)

    async def add_sources(self, dry_run: DryRun, rule: Rule, client: DryRunClient) -> None:
        """Let the rule's sources exist that the files would create."""
        assert not isinstance(rule.spec, InvalidSpec)
        source, context = rule.spec.source, dry_run.context
        state = context.rule_states.get(rule.key)
        if rule.spec.sources:
            await self._add_composed(dry_run, rule, client)
            return
        if source is None or state is None or state.compiled is None:
            return
        resource = await context.discovery.resolve(source.kind, source.api_version)
        for manifest in self.manifests:
            if not self._is_source(manifest, source):
                continue
            body = await self.stored(client, resource, manifest)
            record = SourceReader(resource.api_version, resource.kind)(body)
            if not record.refused:
                rank = (source.namespaces.index(self.namespace_of(manifest)), manifest.name)
                context.index.add(SourceBinding(state.compiled, record, rank))

    async def _add_composed(self, dry_run: DryRun, rule: Rule, client: DryRunClient) -> None:
        """The same for a template's sources, which are then read again."""
        binding = binding_of(dry_run.context, rule.owner)
        if binding is None:
            return
        added = False
        for part in binding.composition.parts:
            for manifest in self.manifests:
                if self._is_source(manifest, part.entry.source):
                    body = await self.stored(client, part.resource, manifest)
                    name = ObjectName(part.entry.namespace, manifest.name)
                    part.assumed[name] = body
                    part.changed()
                    added = True
        if added:
            dry_run.client.ready_conditions.pop(rule.key, None)
            await dry_run.serve(rule)

    def _is_source(self, manifest: Manifest, source: Source) -> bool:
        if manifest.kind != source.kind or self.namespace_of(manifest) not in source.namespaces:
            return False
        labels = manifest.body["metadata"].get("labels") or {}
        named = source.name in (None, manifest.name)
        return named and (source.selector is None or source.selector.matches(labels))


def _made_up(resource: Resource, namespace: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """An object in a namespace that doesn't exist yet: what the API server would add."""
    added = {
        "namespace": namespace,
        "uid": f"{namespace}/{body['metadata'].get('name')}",
        "resourceVersion": "0",
        "generation": 1,
        "creationTimestamp": format_time(datetime.now(UTC)),
    }
    found = {**body, "metadata": {**body["metadata"], **added}}
    if resource.kind == "Secret":
        texts = found.pop("stringData", None) or {}
        encoded = {
            key: base64.b64encode(str(text).encode()).decode() for key, text in texts.items()
        }
        found["data"] = {**(found.get("data") or {}), **encoded}
    return found


async def dry_object(
    client: DryRunClient, resource: Resource, namespace: str, body: Mapping[str, Any]
) -> dict[str, Any]:
    """An object as the API server would store it after an apply, validated and with defaults.

    Raises:
        ApiError: it would refuse it.
    """
    name = body["metadata"]["name"]
    wanted = {**body, "metadata": {**body["metadata"], "namespace": namespace}}
    try:
        live = await client.get(resource, namespace, name)
    except errors.NotFound as error:
        if error.kind_missing:
            raise
        path, method = resource.path(namespace), "POST"
    else:
        path, method = resource.path(namespace, name), "PUT"
        wanted["metadata"] = {**live["metadata"], **_marks(live, body)}
    answer = await client.request(method, path, body=wanted)
    return {**answer, "apiVersion": resource.api_version, "kind": resource.kind}


def _marks(live: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    return {
        part: {**(live["metadata"].get(part) or {}), **(body["metadata"].get(part) or {})}
        for part in ("labels", "annotations")
    }
