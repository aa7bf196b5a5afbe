"""Deciding about Bundles: versions, Jobs, states. Pure: no I/O, no clock."""
