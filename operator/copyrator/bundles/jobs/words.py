"""The words with which scripts of Jobs tell of a chart, and of werf's plan. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

AS_ACCOUNT: Final = "as the deploying account: "
AT_ROLLBACK: Final = "at rollback: "
AT_UNINSTALL: Final = "at uninstall: "
HOOK: Final = "hook "
HAS: Final = "has "
"""How the lines begin that a script has of a chart's objects, before their IDs."""


class Inexact(StrEnum):
    """Why there is no hash of a plan that werf saved: the word of a script."""

    WERF = "werf"
    """It doesn't know --save-plan and --use-plan."""
    ENCRYPTED = "encrypted"
    TOOLS = "tools"
    """The image lacks one that reads the file."""
    DRAWN = "drawn"
    """Two plans differed."""
    UNSTABLE = "unstable"
    """It kept differing in deploys; the operator's own word."""
