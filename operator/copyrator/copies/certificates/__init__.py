"""Certificates in a rule's copies: when they end, the warning before that, and the metric."""
