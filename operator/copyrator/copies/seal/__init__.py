"""The keyed hash of a copy's content, and its key."""
