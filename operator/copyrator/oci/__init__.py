"""Asking OCI registries which manifest a tag names, politely and without blocking."""
