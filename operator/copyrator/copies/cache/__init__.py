"""In-memory state of rules, sources, copies and namespaces."""
