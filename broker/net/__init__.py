"""The asyncio rim: sockets on one side, the synchronous broker on the other."""
