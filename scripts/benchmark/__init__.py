"""The load generator and the scenarios behind ``scripts/bench``; standard library only."""
