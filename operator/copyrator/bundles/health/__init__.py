"""The health of releases."""
