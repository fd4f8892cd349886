"""AMQP sessions without sockets: states, handshake, channels, methods."""

__all__: list[str] = []
