"""What features judge versions by that others have signed, read once for all of them."""
