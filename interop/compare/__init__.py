"""Compares the broker with RabbitMQ: the same scripts of AMQP methods, and what each answers."""
