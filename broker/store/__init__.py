"""The durable log: segments, group commit, checkpoints, recovery, and the tools for it."""
