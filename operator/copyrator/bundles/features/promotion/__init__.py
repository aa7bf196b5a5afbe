"""Promotion: a version must have been deployed elsewhere for some time (``spec.promoteFrom``)."""
