"""Work on data directories without a broker: check, repair, export and the like. Layer: rim."""
