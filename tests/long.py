"""How much a test does: a little in `make test`, all of it in `make test-long`."""

import os

LONG = bool(os.environ.get("COPYRATOR_LONG"))
