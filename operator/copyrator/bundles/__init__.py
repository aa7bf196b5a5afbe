"""werf bundles: cache, policy, reconciler and status."""
