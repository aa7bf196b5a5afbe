"""Pure functions that decide about Bundles: versions, Jobs, states. No I/O, no clock."""
