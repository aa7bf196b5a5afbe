"""What every command uses, and the commands for rules and Bundles alike."""
