"""werf bundles: the second job, whole."""
