"""A client of OCI registries: resolves tags to digests, rate-limited and without blocking."""
