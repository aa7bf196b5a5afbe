"""Flags and variables."""
