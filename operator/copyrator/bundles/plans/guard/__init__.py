"""The API server holds a Job to what was approved: lists of operations for an admission policy."""
