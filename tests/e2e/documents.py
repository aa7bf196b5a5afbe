"""What the documents show: their blocks of commands and manifests, in order."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import release
from demo.chart import ROOT

DOCUMENTS = (
    "README.md",
    "docs/quick-start.md",
    "docs/first-bundle.md",
    "docs/settings.md",
    "docs/bundles.md",
    "docs/rules.md",
    "docs/composed.md",
    "docs/rollouts.md",
    "docs/ui.md",
    "docs/trust.md",
    "docs/adoption.md",
    "docs/webhook.md",
    "docs/security.md",
    "docs/high-availability.md",
    "docs/index.md",
    "docs/concepts.md",
    "docs/troubleshooting.md",
    "docs/operations.md",
    "docs/comparison.md",
    "docs/architecture.md",
    "docs/alerts.md",
    "docs/installation.md",
    "docs/guides.md",
    "docs/signatures.md",
    "docs/approval.md",
    "docs/drift.md",
    "docs/health.md",
    "docs/promotion.md",
    "docs/clusters.md",
    "charts/copyrator/README.md",
)

_BLOCK = re.compile(
    r"(?:^<!-- file: (?P<file>\S+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_QUOTED = re.compile(r"(?<=[\s=])'[^']*'")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; `file` is what the comment above it names."""

    language: str
    text: str
    file: str | None


def blocks(document: str, section: str | None = None) -> list[Block]:
    """Return the fenced blocks of a document, or of its section of that heading, in order."""
    text = (ROOT / document).read_text()
    if section is not None:
        text = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return [Block(one["language"], one["text"], one["file"]) for one in _BLOCK.finditer(text)]


def commands(document: str, section: str | None = None) -> list[str]:
    """Return the shell commands of a document, continued lines joined, comments dropped."""
    return [line for block in blocks(document, section) for line in commands_of(block)]


def commands_of(block: Block) -> list[str]:
    """Return the shell commands of a block; of a manifest none."""
    if block.language != "sh":
        return []
    joined = block.text.replace("\\\n", " ")
    # A quoted text may go over several lines.
    joined = _QUOTED.sub(lambda quoted: re.sub(r"\n\s*", " ", quoted[0]), joined)
    found = [line.strip() for line in joined.splitlines()]
    return [line for line in found if shlex.split(line, comments=True)]


def released(command: str, registry: str, files: Path) -> str:
    """A command as it reads for a release in a local registry, which has no TLS."""
    command = command.replace(release.REGISTRY, registry).replace(release.FILES, str(files))
    return re.sub(r"(oci://\S+)", r"\1 --plain-http", command)


def links(document: str) -> list[Path]:
    """Return the files that a document links to."""
    text = (ROOT / document).read_text()
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", text)
    home = (ROOT / document).parent
    return [home / target for target in targets if "://" not in target]
