"""The store of a project, to be read: opened from its version log, without its pipeline.

Nothing is imported that only a pipeline needs, and no module of the project runs. So a store can be
read while its project is being edited, and in a fraction of the time.
"""

from __future__ import annotations

from deltaproduce.errors import NotFoundError
from deltaproduce.projects.file import ProjectFile
from deltaproduce.projects.sessions import session
from deltaproduce.reading.recorded.reader import Reader, reader_at


def recorded(file: ProjectFile) -> Reader | None:
    """Open the project's store as its versions record it; None if there is none yet.

    Raises:
        SessionError: no session can start.
        DefinitionError: the location is not valid.
    """
    try:
        return reader_at(file.location, session(file), file.time_zone)
    except NotFoundError:
        return None
