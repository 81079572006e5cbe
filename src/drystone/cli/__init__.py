"""The ``drystone`` program: one module per command, imported when the command is called."""
