"""Running kubectl and helm."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

from .errors import WerfError
from .settings import kubeconfig

SHORT_LIVED = {"GOGC": "400", "KUBECACHEDIR": os.devnull}
"""Of kubectl's processor time a quarter is garbage collection otherwise, of helm's a tenth.

A cache of what the API server has would be 31 files for each helm, which begins by dropping it.
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """A program that has ended."""

    code: int
    output: str
    error: str

    def checked(self, doing: str) -> str:
        """Its output, if it succeeded.

        Raises:
            WerfError: it didn't; the message says what was being done, and its last words.
        """
        if self.code != 0:
            raise WerfError(f"{doing}: {self.last_words}")
        return self.output

    @property
    def last_words(self) -> str:
        """Its last error, which may have several lines; without a prefix."""
        words = self.error.strip() or f"exit code {self.code}"
        begin = [found.end() for found in re.finditer("^[Ee]rror: ", words, re.MULTILINE)]
        return words[begin[-1] :] if begin else words.splitlines()[-1]


def run(program: str, *arguments: str, stdin: str | None = None, **more: str) -> Ran:
    """Run a program with this one's variables, and more."""
    path = shutil.which(program)
    if path is None:
        raise WerfError(f"the stand-in for werf needs {program} on PATH")
    env = {**os.environ, **SHORT_LIVED, **more}
    config = kubeconfig(os.environ)
    if config:
        env["KUBECONFIG"] = config
    ended = subprocess.run(
        [path, *arguments], input=stdin, env=env, capture_output=True, text=True, check=False
    )
    return Ran(ended.returncode, ended.stdout, ended.stderr)
