"""``spec.health``: whether the objects of a release are as their controllers want them."""
