"""Deploys and uninstalls: when one begins, its Job, and its outcome."""
