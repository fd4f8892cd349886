"""Tasks a second: ours and others, on one broker."""
