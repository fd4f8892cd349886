"""Toolkit: a client for programs: queues, topics, retries, dead letters, delays; on any AMQP broker.

::

    async with connect("amqp://localhost/") as client:
        await client.declare("orders", QueueSpec(retry=Retry(3)))
        await client.send("orders", {"hares": 2})
"""

__all__: list[str] = []
