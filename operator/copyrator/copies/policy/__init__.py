"""What a rule means, as pure functions: no I/O, no clock, no memory."""
