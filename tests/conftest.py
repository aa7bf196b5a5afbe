"""How many examples the property tests look at: 200 in `make test`, 2,000 in `make test-long`."""

from hypothesis import settings
from tests.long import LONG

# Deadlines measure the machine; a hang is found by pytest's time limit.
settings.register_profile("copyrator", max_examples=2000 if LONG else 200, deadline=None)
settings.load_profile("copyrator")
