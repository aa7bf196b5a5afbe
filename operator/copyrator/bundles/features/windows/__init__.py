"""``spec.windows``: the hours in which deploys begin."""
