"""Kubernetes API access: connection, client, watches and Events; it decides nothing."""
