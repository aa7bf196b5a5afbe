"""The checks that a version must pass before it is deployed."""
