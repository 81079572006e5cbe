"""Tables on disk that must be worked through in blocks, for tests."""

import drystone as ds
from drystone.table.disk import Writer


def stored(table, path, blocks, memory=0):
    """Write a table in about so many blocks of rows, and open it with next to no memory allowed."""
    held = ("log_q", "rank", "mean", "cov", "draws")
    of_row = max(8 * table.K, *(table.held[key][:, :1].nbytes for key in held if key in table.held))
    with Writer(path, table.N, table.names, table.parameters, block=of_row * table.N // blocks) as new:
        columns = {key: table.held[key] for key in held if key in table.held}
        if table.y is not None:
            columns["y"] = table.y
        if table.weighted:
            columns["row_weights"] = table.row_weights
        quantiles = {level: table.quantile(level) for level in table.levels}
        new.write(0, theta=table.theta, quantiles=quantiles or None, **columns)
    return ds.Table.open(path, memory)
