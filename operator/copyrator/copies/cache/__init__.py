"""What is known of rules, sources, copies and namespaces, in memory."""
