"""Scenarios that ask whether a message costs the same however much there is of something."""
