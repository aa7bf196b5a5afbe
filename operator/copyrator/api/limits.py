"""Every limit on what a tenant, a registry or a caller of the webhook may send, in one place.

What is over a limit is refused before it is worked on, and its object's status says so. The limits
are the operator's own: where a CRD allows more, the spec is InvalidSpec and the object stays
editable. docs/reference/limits.md is generated from this module.
"""

from __future__ import annotations

from typing import Final

# --- one step of work ---------------------------------------------------------------------------

STEP_SECONDS: Final = 0.05
"""Seconds of processor time that one step of the event loop may take: leader election, probes and
all other objects wait that long."""

SLICE_SECONDS: Final = 0.01
"""Seconds of processor time after which a long task lets others run."""

ISOLATED_CPU_SECONDS: Final = 10
"""Seconds of processor time of one piece of work in the child process: ten times what the largest
accepted rule or Bundle needs."""

ISOLATED_MEMORY: Final = 512 * 1024 * 1024
"""Bytes of address space of the child process."""

# --- rules --------------------------------------------------------------------------------------

# --- templates ----------------------------------------------------------------------------------

# --- copies, sources, consent -------------------------------------------------------------------

MAX_GLOBS: Final = 1_000
"""Patterns of one list of globs in a rule, and patterns with a wildcard in one allow-to or
allow-from annotation: they are matched together in 0.5 ms."""

MAX_GLOB_TEXT: Final = 65_536
"""Characters of all patterns with a wildcard in one list: the bits of the automaton that matches
them, built in 20 ms."""

MAX_GLOB_WORK: Final = 400_000_000
"""Characters of a source's keys times characters of the patterns that choose among them: some 40 ms
for one copy."""

MAX_CONSENT_TEXT: Final = 256 * 1024
"""Characters of an allow-to or allow-from annotation: as many as the API server allows all
annotations of an object together."""

MAX_REQUIREMENTS: Final = 64
"""Labels and expressions of one selector: matched for each namespace and each source."""

MAX_REQUIREMENT_VALUES: Final = 64
"""Values of one expression of a selector."""

# --- fairness between namespaces ----------------------------------------------------------------

# --- Bundles ------------------------------------------------------------------------------------

# --- registries ---------------------------------------------------------------------------------

# --- webhook ------------------------------------------------------------------------------------
