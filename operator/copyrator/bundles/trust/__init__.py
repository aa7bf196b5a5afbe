"""Which signatures a bundle must have, and whether it has them."""
