"""Trials whose figures decide whether something is built; none of this is part of the broker."""
