"""Which version a registry has for a Bundle: when it is polled, and how answers are used."""
