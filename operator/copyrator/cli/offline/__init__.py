"""Commands that need no cluster."""
