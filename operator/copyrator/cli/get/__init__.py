"""Commands that show objects."""
