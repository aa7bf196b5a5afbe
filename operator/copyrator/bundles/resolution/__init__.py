"""Which version a registry has for a Bundle: when it is asked, and what of its answers counts."""
