"""Copy rules: the first job, whole."""
