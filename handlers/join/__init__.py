"""Join: a node registers, waits for its turn, reports, and is taken back out when it fails."""
