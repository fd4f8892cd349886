"""Layer 0: bytes to values and back; no state, no input or output."""
