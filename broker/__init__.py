"""Leveret: a message broker that speaks AMQP 0-9-1 as RabbitMQ does."""

__all__ = ["__version__"]

__version__ = "0.1.0"
