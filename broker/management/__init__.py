"""The HTTP API of an operator (management layer): aiohttp alone is asynchronous here."""
