"""What the charts of gated Bundles are made of: what they may not be, and what they may draw."""
