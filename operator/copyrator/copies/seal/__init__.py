"""The keyed hash of a copy's content, and what to do without one."""
