"""Links, and how Python resolves paths on this machine."""

from pathlib import Path

import pytest

from deltaproduce.engines.paths import is_linked, links_below, local_path


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("/a/b", "/a/b"),
        ("/", "/"),
        ("file:/a", "/a"),
        ("file:///a#b?c%20\nd", "/a#b?c%20\nd"),
        ("/a#b?c", "/a#b?c"),
        ("file://host/a", None),
        ("//host/a", None),
        ("s3://bucket/a", None),
        ("a/b", None),
    ],
)
def test_paths_of_this_machine(address: str, path: str | None) -> None:
    assert local_path(address) == path


def test_links_on_the_way_down(tmp_path: Path) -> None:
    """Those above the root do not count: it is where its owner has put it."""
    (tmp_path / "real" / "stage" / "content").mkdir(parents=True)
    (tmp_path / "root").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "linked").symlink_to(tmp_path / "real" / "stage")
    (tmp_path / "real" / "stage" / "runs").symlink_to(tmp_path / "real" / "stage" / "content")
    (tmp_path / "real" / "stage" / "gone").symlink_to(tmp_path / "nowhere")
    for root in (str(tmp_path / "real"), str(tmp_path / "root"), f"file://{tmp_path}/root/"):
        base = root.rstrip("/")
        assert not is_linked(root, f"{base}/stage/content")
        assert not is_linked(root, f"{base}//stage/none/_delta_log")
        assert is_linked(root, f"{base}/linked/content")
        assert is_linked(root, f"{base}/stage/runs")
        assert is_linked(root, f"{base}/stage/gone")
        assert links_below(base) == ("linked", "stage/gone", "stage/runs")
    assert not is_linked("s3://b/a", "s3://b/a/linked")
    assert links_below("s3://b/a") == ()
    assert links_below(str(tmp_path / "none")) == ()
