"""Other clusters that rules have sources in (``kubeConfig``)."""
