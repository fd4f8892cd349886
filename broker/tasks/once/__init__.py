"""Stores that remember which task has been done, for guarantee ``effectively_once``.

Layer: tasks.
"""
