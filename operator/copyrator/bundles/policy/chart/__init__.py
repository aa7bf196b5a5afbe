"""Judges a bundle's chart from its one layer: whether templates draw, what isn't vendored. Pure."""
