"""Pure functions that decide about copies: no I/O, no clock, no state."""
