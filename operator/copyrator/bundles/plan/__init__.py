"""Plans of deploys, checks for drift and previews."""
