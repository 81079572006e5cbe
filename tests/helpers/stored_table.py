"""Tables on disk that must be worked through in blocks, for tests."""

import drystone as ds
from drystone.table.disk import Writer
from drystone.table.statistics import as_arguments


def held(table):
    """Return the statistics that a table holds, by key."""
    return {key: table._statistic(key) for key in table._source.keys}


def stored(table, path, blocks, memory=0):
    """Write a table in about so many blocks of rows, and open it with next to no memory allowed."""
    columns = held(table)
    of_row = max(8 * table.K, *(array[:, :1].nbytes for key, array in columns.items() if isinstance(key, str)))
    with Writer(path, table.N, table.names, table.parameters, block=of_row * table.N // blocks) as new:
        rows = {"theta": table.theta}
        if table.y is not None:
            rows["y"] = table.y
        if table.weighted:
            rows["row_weights"] = table.row_weights
        new.write(0, **rows, **as_arguments(columns))
    return ds.Table.open(path, memory)
