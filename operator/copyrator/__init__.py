"""Copyrator: copies objects between namespaces by rule and deploys werf bundles."""

__version__ = "0.1.0"
