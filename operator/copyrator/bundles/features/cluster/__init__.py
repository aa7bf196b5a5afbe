"""Another cluster: the release of a Bundle is where its ``spec.kubeConfig`` says."""
