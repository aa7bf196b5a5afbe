"""Plans of deploys: what they would do, when they are made, and their record in the status."""
