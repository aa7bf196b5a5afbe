"""Commands for rules."""
