"""Toolkit, tasks: where the results of tasks are kept for those who ask."""
