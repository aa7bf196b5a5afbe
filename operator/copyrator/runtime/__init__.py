"""Composes the process and keeps it alive."""
