"""Objects that are rendered."""
