"""Ways to train one member: ``compiled`` (CPU, tabular y) and ``torch`` (any embedding, any device)."""
