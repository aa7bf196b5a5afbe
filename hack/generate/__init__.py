"""Writes what is made from something else: manifests from the chart, references from the code."""
