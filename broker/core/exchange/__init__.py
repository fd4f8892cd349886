"""Core: the exchange types, one module each; :mod:`registry` knows them by name."""

__all__: list[str] = []
