"""Whether a rule reaches the namespaces of Kubernetes itself without naming them."""

from __future__ import annotations

from copyrator.api.rule_spec import Targets

SYSTEM = ("kube-node-lease", "kube-public", "kube-system")
_LABEL = "kubernetes.io/metadata.name"


def warning(targets: Targets) -> str:
    """The warning; empty where none is reached, or a pattern begins with ``kube``."""
    if any(pattern.startswith("kube") for pattern in targets.namespaces.patterns):
        return ""
    reached = [name for name in SYSTEM if targets.matches(name, {_LABEL: name})]
    if not reached:
        return ""
    return (
        f"the targets include {', '.join(reached)}; to leave them out, add kube-* to "
        "spec.targets.exclude"
    )
