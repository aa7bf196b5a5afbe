"""Flags, variables and limits."""
