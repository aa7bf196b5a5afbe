"""One target object: what is there, what should be, the write."""
