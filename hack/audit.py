"""Asks the package index for known vulnerabilities of every locked dependency, by pip-audit.

Exit codes: 0 none is known; 1 some are; 3 it isn't known, because the source of advisories could
not be asked about every dependency. Silence is never taken for good news: package mirrors often
serve packages and no advisories. AUDIT_SERVICE=osv asks osv.dev instead.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements-dev.lock"
"""It holds all that the other lock files hold, in the same versions."""

FOUND, UNKNOWN = 1, 3

EXCEPTIONS: dict[str, str] = {}
"""Advisories that don't concern us: id to the reason why."""


def main() -> int:
    """Audit the lock file; print what is known."""
    service = os.environ.get("AUDIT_SERVICE", "pypi")
    command = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off"]
    command += ["--disable-pip", "--require-hashes", "--timeout", "20", "-s", service]
    done = subprocess.run(
        [*command, "-r", str(LOCK)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    try:
        report = json.loads(done.stdout)
    except json.JSONDecodeError:
        last = done.stderr.strip().rpartition("\n")[2]
        print(f"NOT AUDITED: {service} can't be queried for advisories: {last}")
        return UNKNOWN
    code, text = judge(report)
    print(text)
    return code


def judge(report: Mapping[str, Any]) -> tuple[int, str]:
    """What a report of pip-audit means: the exit code, and a text for a person."""
    dependencies = report["dependencies"]
    lines = [
        f"{one['name']} {one['version']}: {found['id']}, fixed in {_versions(found)}"
        for one in dependencies
        for found in one.get("vulns", ())
        if not EXCEPTIONS.keys() & {found["id"], *found.get("aliases", ())}
    ]
    if lines:
        return FOUND, "\n".join(lines)
    unknown = [one["name"] for one in dependencies if "skip_reason" in one]
    if unknown or not dependencies:
        return UNKNOWN, (
            f"NOT AUDITED: no advisories are available for {len(unknown)} of {len(dependencies)} "
            f"dependencies ({', '.join(unknown[:5])} ...): a mirror without them?"
        )
    return 0, f"No known vulnerability in {len(dependencies)} dependencies"


def _versions(found: Mapping[str, Any]) -> str:
    return " or ".join(found.get("fix_versions") or ()) or "no version yet"


if __name__ == "__main__":
    sys.exit(main())
