"""Records which modules of the operator run, for the figures of tests/places.toml."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import copyrator

SOURCE = str(Path(copyrator.__file__).parent) + "/"


class ModuleRecorder:
    """The modules whose functions coroutines run while it is started, of all tasks.

    What timers of the event loop call isn't recorded.
    """

    def __init__(self) -> None:
        self.modules: set[str] = set()

    def start(self) -> None:
        clear_caches()
        sys.setprofile(self._event)

    def stop(self) -> None:
        sys.setprofile(None)

    def _event(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event != "call" or not is_ours(frame) or frame.f_code.co_name == "<module>":
            return
        stack = stack_of(frame)
        if stack[-1].f_code.co_flags & inspect.CO_COROUTINE:  # else called by a timer
            self.modules.add(module_of(frame))
        self.record_call(frame, stack)

    def record_call(self, frame: FrameType, stack: list[FrameType]) -> None:
        """A function of the operator is called; the stack has it first."""


def is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(SOURCE)


def module_of(frame: FrameType) -> str:
    return frame.f_code.co_filename.removeprefix(SOURCE)


def stack_of(frame: FrameType) -> list[FrameType]:
    """The operator's frames from this one up to the one that the event loop called."""
    found: list[FrameType] = []
    one: FrameType | None = frame
    while one is not None:
        if is_ours(one):
            found.append(one)
        one = one.f_back
    return found


def clear_caches() -> None:
    """So that what an earlier test has cached is computed again, and counted."""
    for name, module in list(sys.modules.items()):
        if name.startswith("copyrator."):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()
