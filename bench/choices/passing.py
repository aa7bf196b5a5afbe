"""A running side of `choices-kopf`, and the keys that it passed on."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Self

from bench.choices.child import Child
from bench.rig import Rig


class Passing:
    """A context manager: the side runs as the operator's service account."""

    def __init__(self, rig: Rig, side: str, kubeconfig: Path) -> None:
        self.side = side
        self._kubeconfig = kubeconfig
        self._log = rig.cluster.layout.logs / "choices-kopf.log"
        self._file = rig.cluster.layout.logs / "keys"
        self._file.write_text("")
        self._offset = 0
        self.process: Child
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.process.stop()

    def start(self) -> None:
        """Start the process, or start it again."""
        arguments = [self.side, str(self._kubeconfig), str(self._file)]
        self.process = Child("kopf_child", arguments, self._log)

    def restart_ended(self) -> bool:
        """Start it again where it has ended by itself, as the kubelet would; return whether."""
        ended = self.process.ended
        if ended:
            self.start()
        return ended

    def kill(self) -> None:
        """As a crash would."""
        self.process.send(signal.SIGKILL)
        self.process.stop()

    def forget(self) -> None:
        """Count keys from now on."""
        self._offset = self._file.stat().st_size

    def keys(self) -> dict[str, tuple[int, bool]]:
        """The keys passed on: the newest resourceVersion, and whether it was said to be gone."""
        found: dict[str, tuple[int, bool]] = {}
        with self._file.open() as lines:
            lines.seek(self._offset)
            for line in lines:
                if not line.endswith("\n"):
                    break
                key, version, what = line.split()
                before, gone = found.get(key, (0, False))
                number = int(version) if version.isdecimal() else 0
                found[key] = max(before, number), gone or what == "gone"
        return found
