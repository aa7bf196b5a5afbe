"""Plans of deploys: made by Jobs, read and remembered; and Jobs that are held to them."""
