"""The ``drystone`` command: a file a verb, each imported when it is asked for."""
