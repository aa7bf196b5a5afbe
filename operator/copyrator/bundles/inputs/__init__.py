"""What a Bundle names in the cluster: values, credentials and keys."""
