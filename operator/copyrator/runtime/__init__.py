"""Composition, start-up and supervision of the process."""
