"""What kopf calls: each handler passes on what it was told and decides nothing."""
