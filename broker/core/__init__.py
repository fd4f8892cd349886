"""The broker model: virtual hosts, exchanges, queues, consumers. Synchronous; time passed in."""

__all__: list[str] = []
