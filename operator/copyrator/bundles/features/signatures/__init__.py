"""``spec.verify`` and the operator's signature policy: only what somebody trusted has signed."""
