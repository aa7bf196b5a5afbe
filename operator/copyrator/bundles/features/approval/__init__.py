"""Plans of deploys, and their approval; the API server can be made to hold a deploy to its plan."""
