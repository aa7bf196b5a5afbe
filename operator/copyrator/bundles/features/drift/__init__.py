"""Checks whether the objects of a release still are as they were deployed, and corrections."""
