"""Consent: a release in another namespace than its Bundle's has to be accepted there."""
