"""Waiting for a condition."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


async def eventually(look: Callable[[], Any], what: str = "", seconds: float = 240.0) -> Any:
    """Look until the answer is true; a deadline tells a hang from a machine that is busy."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not (found := look()):
        assert asyncio.get_running_loop().time() < deadline, f"{what}; last seen: {found}"
        await asyncio.sleep(0.01)
    return found
