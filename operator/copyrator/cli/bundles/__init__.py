"""Commands for Bundles."""
