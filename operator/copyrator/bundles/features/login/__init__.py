"""``spec.provider``: Jobs get short-lived tokens of a cloud's identity for the registry."""
