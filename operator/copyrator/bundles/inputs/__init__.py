"""What a Bundle names in the cluster: values, credentials, keys, and consent."""
