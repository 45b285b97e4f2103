"""The text in a store's folder that says what is what, for people who find the folder.

The invariant: the library never reads it, and no name of a stage's folder is the text's.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from deltaproduce.engines.file_systems.directory import Directory

NAME: Final = "_README.txt"
_TEXT: Final = """\
A store of deltaproduce: Delta tables that belong together. A version is one state of all of them.

<stage>/content       the rows of a stage; columns that begin with _ are the library's
<stage>/key_mappings  which keys of its feeder each of its keys was made from
<stage>/updates       what each version changed: use rows up to the newest number in _versions
_versions             one row for each version; "tables" has the Delta version of each table
Other folders that begin with _ are internal, and Parquet files alone have rows that do not count.
If a stage has a folder "runs", its newest rows may be there: use deltaproduce.read.

Replace STORE by the path of this folder, STAGE by a stage, and 0 by the Delta version of the table:
  Spark SQL   SELECT max_by(tables, number)['STAGE/content'] FROM delta.`STORE/_versions`
The rows of the stage as of that version:
  Spark SQL   SELECT * FROM delta.`STORE/STAGE/content` VERSION AS OF 0
  DuckDB      SELECT * FROM delta_scan('STORE/STAGE/content', version => 0)
  Polars      polars.read_delta("STORE/STAGE/content", version=0)
As of the newest version, without Spark and without the code of the pipeline:
  Python      deltaproduce.read("STORE", "STAGE")
"""


def write(directory: Directory) -> None:
    """Write the text where there is none, if it can be written."""
    with suppress(OSError):
        if not directory.exists(NAME):
            directory.write(NAME, _TEXT)
