"""The keys of a bucket's folder."""

from pathlib import Path

from foldb.server.buckets.bucket_folders import BucketFolder, path_while_written


def test_a_file_that_is_being_written_is_no_key(tmp_path: Path) -> None:
    """An export in the same bucket writes it: when it is complete, this path is gone."""
    (tmp_path / "one").mkdir()
    bucket = BucketFolder(tmp_path, "one")
    path = bucket.folder("in") / "a.json.gz"
    part = path_while_written(path)
    part.touch()
    before = list(bucket.keys("in/"))
    part.replace(path)

    assert ([], ["in/a.json.gz"]) == (before, list(bucket.keys("in/")))
