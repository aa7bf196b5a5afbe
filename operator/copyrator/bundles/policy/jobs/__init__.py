"""The Jobs that run werf, and the Secrets that they mount: pure functions to manifests."""
