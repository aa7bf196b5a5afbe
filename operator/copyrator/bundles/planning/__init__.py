"""Makes plans: records them, creates their Jobs, and reads their results."""
