"""Who may do what: users, password hashes, SASL mechanisms, permissions. No I/O, no randomness."""
