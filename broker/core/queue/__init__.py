"""Queue types, their arguments and their ready messages."""

__all__: list[str] = []
