"""The objects that rules copy from, and their watches."""
