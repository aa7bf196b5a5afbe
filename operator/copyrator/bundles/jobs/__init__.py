"""Jobs of Bundles: what they are made of, their Secrets, and what became of them."""
