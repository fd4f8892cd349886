"""TLS: certificates, keys and what they say. Layer: rim, below net and config."""
