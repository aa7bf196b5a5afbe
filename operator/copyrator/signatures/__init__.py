"""Verification of signatures of bundles: bytes in, a verdict out. It does no I/O."""
