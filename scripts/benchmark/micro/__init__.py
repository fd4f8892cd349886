"""Single operations of the broker's core, each timed with one knob: in the process, no sockets."""
