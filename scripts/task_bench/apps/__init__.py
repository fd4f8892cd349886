"""The same task in each system, as its own documentation has it."""
