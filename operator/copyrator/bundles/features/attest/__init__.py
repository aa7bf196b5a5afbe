"""Attestations: the registry says which digests are deployed here (``spec.attest``)."""
