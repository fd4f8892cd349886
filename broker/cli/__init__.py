"""The command ``leveret``. Each subcommand is a module of its own, imported when it is called."""
