"""kopf's handlers: each passes its event on and decides nothing.

kopf imports all models of `kubernetes.client`, where that is installed, to recognize them among its
arguments, which ours never are. It takes 20 MB, so that package is hidden while kopf is imported.
"""

import sys

from copyrator import connections as connections  # imports aiohttp, before kopf does

_hidden = sys.modules.setdefault("kubernetes", None) is None  # type: ignore[arg-type]
try:
    import kopf as kopf
finally:
    if _hidden:
        del sys.modules["kubernetes"]
