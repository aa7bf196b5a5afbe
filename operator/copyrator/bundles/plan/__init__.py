"""Plans of deploys, checks for drift and previews.

docs/architecture.md has a table of what differs by the purpose of a plan.
"""
