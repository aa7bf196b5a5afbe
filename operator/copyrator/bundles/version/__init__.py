"""Which version a registry has for a Bundle: when it is polled, and which tag is chosen."""
