"""Tells monitoring systems what the broker counts: Prometheus asks, StatsD is sent it."""
