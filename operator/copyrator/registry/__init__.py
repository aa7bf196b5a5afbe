"""What the process knows of the cluster, in memory, with O(1) look-ups both ways."""
