"""Logins to clouds' registries by the identity of a service account, or by the operator's own."""
