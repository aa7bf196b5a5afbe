"""Copy rules: cache, policy, reconcilers and status."""
