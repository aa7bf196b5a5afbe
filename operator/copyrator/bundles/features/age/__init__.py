"""``spec.minAge``: a version waits until its digest has been known for some time."""
