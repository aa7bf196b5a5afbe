"""trust-manager's Bundles and secretgen's SecretImports as rules of ours: pure.

Read in the tools' own sources, at the versions that docs/adoption.md names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from copyrator.api import names
from copyrator.cli.migrate.tools import RequestedCopies

TRUST_MANAGER: Final = "trust-manager"
SECRETGEN: Final = "secretgen-controller"
ALL_NAMESPACES: Final = "*"

_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_TARGETS: Final = {"configMap": ("ConfigMap", "data"), "secret": ("Secret", "stringData")}
_SOURCES: Final = {"configMap": "ConfigMap", "secret": "Secret"}
_DEFAULT_CAS: Final = (
    "useDefaultCAs can't be carried over: copy the CAs that you need (for example from the package "
    "ca-certificates) into a ConfigMap, and add it to spec.sources and to the list in the template"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleRule:
    """One target of a Bundle; `kind` is the target's."""

    tool: str = TRUST_MANAGER
    kind: str
    namespace: str
    """Of the sources."""
    name: str
    spec: Mapping[str, Any] = field(repr=False)
    remarks: Sequence[str] = ()

    @property
    def request(self) -> BundleRule:
        """What is printed above the rule."""
        return self

    def rule(self, home: str) -> dict[str, Any]:
        """Its manifest, in the namespace of trusted rules."""
        return {
            "apiVersion": names.RULE_API_VERSION,
            "kind": names.RULE_KIND,
            "metadata": {"name": f"{self.name}-{self.kind.lower()}", "namespace": home},
            "spec": dict(self.spec),
        }


def bundle_rules(body: Mapping[str, Any], trust_namespace: str) -> list[BundleRule]:
    """The rules that do what a Bundle does: one for each target."""
    spec = body.get("spec") or {}
    name = str(body["metadata"]["name"])
    sources, parts, remarks = _sources(spec.get("sources") or (), trust_namespace)
    target = spec.get("target") or {}
    for form in sorted(target.get("additionalFormats") or {}):
        shown = {"jks": "JKS", "pkcs12": "PKCS#12"}.get(form, form)
        remarks.append(f"the {shown} trust store can't be carried over: rules write PEM only")
    found: list[BundleRule] = []
    for place, (kind, data) in _TARGETS.items():
        if (wanted := target.get(place)) is None:
            continue
        metadata = {"name": name, **(wanted.get("metadata") or {})}
        text = f"{{{{ [{', '.join(parts)}] | pem_bundle }}}}"
        template: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": {key: value for key, value in metadata.items() if value},
            data: {str(wanted.get("key")): text},
        }
        rule: dict[str, Any] = {"sources": sources} if sources else {}
        rule |= {"template": template}
        if selector := target.get("namespaceSelector"):
            rule["targets"] = {"selector": selector}
        rule["onConflict"] = "Adopt"
        one = BundleRule(
            kind=kind, namespace=trust_namespace, name=name, spec=rule, remarks=tuple(remarks)
        )
        found.append(one)
    return found


def _sources(
    entries: Sequence[Mapping[str, Any]], namespace: str
) -> tuple[list[dict[str, Any]], list[str], list[str]]:
    """The entries of spec.sources, what the template reads of each in order, and remarks."""
    sources: list[dict[str, Any]] = []
    parts: list[str] = []
    remarks: list[str] = []
    for entry in entries:
        if entry.get("useDefaultCAs"):
            remarks.append(_DEFAULT_CAS)
        if text := entry.get("inLine"):
            parts.append(_literal("\n".join(_PEM.findall(str(text)))))
        for place, kind in _SOURCES.items():
            if not (wanted := entry.get(place)):
                continue
            alias = f"source{len(sources) + 1}"
            which = {part: wanted[part] for part in ("name", "selector") if wanted.get(part)}
            sources.append({"as": alias, "kind": kind, "namespace": namespace, **which})
            key = ALL_NAMESPACES if wanted.get("includeAllKeys") else str(wanted.get("key"))
            parts.append(f"sources.{alias} | pem_bundle(key={_literal(key)})")
    return sources, parts, list(dict.fromkeys(remarks))


def _literal(text: str) -> str:
    """A text as Jinja2 writes it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def imported(
    imports: Sequence[Mapping[str, Any]], exports: Sequence[Mapping[str, Any]]
) -> Iterator[RequestedCopies]:
    """SecretImports as copies: one rule for each Secret that is imported."""
    offered = {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in exports}
    spaces: dict[tuple[str, str], list[str]] = {}
    for one in imports:
        metadata = one["metadata"]
        source = (str((one.get("spec") or {}).get("fromNamespace")), str(metadata["name"]))
        spaces.setdefault(source, []).append(str(metadata["namespace"]))
    for source, wanted in sorted(spaces.items()):
        export = offered.get(source)
        allowed = _allowed(export, wanted)
        remarks = [f"a new SecretImport of {'/'.join(source)} needs an entry in spec.targets"]
        if left := sorted(set(wanted) - set(allowed)):
            why = "no SecretExport offers it" if export is None else "its SecretExport may not"
            remarks.append(f"left out, {why} there: {', '.join(left)}")
        if allowed:
            yield RequestedCopies(
                tool=SECRETGEN,
                kind="Secret",
                namespace=source[0],
                name=source[1],
                namespaces=tuple(sorted(allowed)),
                remarks=tuple(remarks),
            )


def _allowed(export: Mapping[str, Any] | None, wanted: Sequence[str]) -> list[str]:
    """The namespaces that an export offers its Secret to; with a selector all that import it."""
    if export is None:
        return []
    spec = export.get("spec") or {}
    static = {*(spec.get("toNamespaces") or ()), spec.get("toNamespace")}
    if ALL_NAMESPACES in static or spec.get("dangerousToNamespacesSelector"):
        return list(wanted)
    return [name for name in wanted if name in static]
