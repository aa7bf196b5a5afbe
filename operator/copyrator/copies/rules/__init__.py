"""A rule from its event to its status."""
