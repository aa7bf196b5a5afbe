"""ConfigMaps and Secrets that Bundles name: watched, and read only when they changed."""
