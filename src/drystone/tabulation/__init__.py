"""The pieces of :func:`drystone.tabulate`: one member's rows, where they are worked on, and what is kept."""
