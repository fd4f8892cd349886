"""What the broker counts, read and made into totals, rates and histories. Pure."""
