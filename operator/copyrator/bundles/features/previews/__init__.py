"""Plans of versions that users name, which are only shown."""
