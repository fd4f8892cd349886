"""``leveret ctl``: rabbitmqctl's verbs, over the broker's own socket or its HTTP API.

Nothing here imports the broker: a verb is a request or two, and starting up is what takes its time.
"""
