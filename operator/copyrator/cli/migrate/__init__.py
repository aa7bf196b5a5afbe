"""Rules in place of other tools' annotations."""
