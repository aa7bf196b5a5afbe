"""Runs the real cosign and notation, each in an empty home, and says whether they were content."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_NOWHERE = "http://127.0.0.1:9"
_SECONDS = 120
_LONGEST = 300
_REASON = re.compile(r"failed verification with error: (.*)")
_NOISE = ("WARNING:", "Warning:", "Flag --", "error during command execution:", "level=info")


class ToolFailedError(RuntimeError):
    """A tool didn't do what the material is made from; the message has its output."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a verification by a tool came to."""

    holds: bool
    error: str
    """In one line, without paths and ports; empty where it holds."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The programs by name (``cosign2``, ``cosign3``, ``notation``) and their working directory."""

    programs: Mapping[str, Path]
    directory: Path

    def run(self, program: str, *arguments: str, home: str = "home", given: str = "") -> str:
        """Run a tool that has to succeed, given this standard input; its standard output.

        Raises:
            ToolFailedError: it didn't.
        """
        done = self._run(program, arguments, home, given)
        if done.returncode != 0:
            command = " ".join([program, *arguments])
            raise ToolFailedError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def ask(self, program: str, *arguments: str, home: str = "home") -> Answer:
        """Run a verification: exit code 0 is a yes, anything else a no with its reason."""
        done = self._run(program, arguments, home)
        if done.returncode == 0:
            return Answer(True, "")
        return Answer(False, self._short(done.stderr))

    def _run(
        self, program: str, arguments: tuple[str, ...], home: str, given: str = ""
    ) -> subprocess.CompletedProcess[str]:
        own = self.directory / home
        own.mkdir(exist_ok=True)
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(own),
            "XDG_CONFIG_HOME": str(own),
            "COSIGN_PASSWORD": "",
            # Nothing may be asked of the network: whoever tries hears "connection refused".
            "HTTP_PROXY": _NOWHERE,
            "HTTPS_PROXY": _NOWHERE,
            "NO_PROXY": "127.0.0.1",
        }
        return subprocess.run(
            [self.programs[program], *arguments],
            cwd=self.directory,
            env=environment,
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )

    def _short(self, output: str) -> str:
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        # notation says why only among its log's lines.
        lines = _REASON.findall(output) or [one for one in lines if not one.startswith(_NOISE)]
        # Some say the same of each signature.
        text = " / ".join(dict.fromkeys(lines)).replace(str(self.directory), "")
        text = re.sub(r"127\.0\.0\.1:\d+", "REGISTRY", text)
        text = re.sub(r"(sha256[:-][0-9a-f]{8})[0-9a-f]{56}", r"\1…", text)
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
