"""Jobs that plan a deploy: of the next version, of a version a user names, and to find drift.

docs/architecture.md has a table of what differs by the purpose of a plan.
"""
