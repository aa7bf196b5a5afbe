"""What features judge versions by that others have signed: it is read here, once for all of them."""
