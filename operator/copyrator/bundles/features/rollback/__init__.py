"""Rollbacks: a pinned version instead of the newest, and digests that are never deployed."""
