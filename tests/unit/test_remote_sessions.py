"""Sessions of a server are released once they are not used again."""

from types import SimpleNamespace

import pytest

from deltaproduce.engines.spark.sessions.settings import Sessions


class Remote:
    """A session of Spark Connect, as far as settings need one."""

    def __init__(self, released: list["Remote"], *, is_gone: bool = False) -> None:
        self.conf = SimpleNamespace(getAll=dict[str, str]())
        self.client = SimpleNamespace(release_session=self.release)
        self.released, self.is_gone = released, is_gone

    def cloneSession(self) -> "Remote":  # noqa: N802 Spark's name
        return Remote(self.released, is_gone=self.is_gone)

    def release(self) -> None:
        self.released.append(self)
        if self.is_gone:
            raise OSError("the server is gone")


Remote.__module__ = "pyspark.sql.connect.session"


@pytest.mark.parametrize("is_gone", [False, True])
@pytest.mark.parametrize("failure", [OSError, KeyboardInterrupt])
def test_a_session_in_which_something_failed_is_released(
    failure: type[BaseException], is_gone: bool
) -> None:
    released = list[Remote]()
    sessions = Sessions(Remote(released, is_gone=is_gone))  # type: ignore[arg-type]
    with sessions.one() as first:
        pass
    assert not released
    with pytest.raises(failure), sessions.one():
        raise failure
    assert released == [first]
    with sessions.one() as third:
        assert third is not first
    assert released == [first]
