"""Object stores: buckets of a service with S3's protocol.

Pyarrow reads, lists and removes files (https://arrow.apache.org/docs/python/filesystems.html),
delta-rs commits to tables, and obstore puts the commits that mark rows
(https://developmentseed.org/obstore/); all get the same settings, from the variables that delta-rs
reads
(https://docs.rs/object_store/latest/object_store/aws/struct.AmazonS3Builder.html). The invariant: a
commit is put on the condition that its file does not exist (``If-None-Match: *``);
`local.commit_probe` finds out whether a service obeys.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, BinaryIO, Final

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store
from pyarrow import fs
from typing_extensions import override

from deltaproduce.engines.file_systems.directory import Entry, FileSystem, Text
from deltaproduce.types.excerpts import escaped

_PLAIN: Final = re.compile(r"(?:(?!\.{1,2}(?:/|$))[\w .=@+~-]+(?:/(?!$)|$))+")
_TRUE: Final = ("1", "true", "on", "yes", "y")
_SILENCE: Final = re.compile(
    r"AWS Error (?!NO_SUCH_KEY|RESOURCE_NOT_FOUND)\w+|Generic S3 error|NoSuchBucket"
    r"|loading credentials"
)
_OF_DELTA_RS: Final = "AWS_S3_ALLOW_UNSAFE_RENAME"
"""The setting that only delta-rs knows."""
_OF_A_KEY: Final = re.compile(r"NoSuchKey|NO_SUCH_KEY")
_ORNAMENTS: Final = re.compile(r"\x1b\[[0-9;]*m|↳")
_LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class ObjectStore(FileSystem):
    """One service, and the credentials for it. See `FileSystem`.

    Attributes:
        endpoint: its URL; None for Amazon's own in the region.
        region: None if the service tells it, or ignores it.
        key: the access key; None if pyarrow and delta-rs find credentials on their machine.
        is_virtual_hosted: the bucket is in the host's name, not in the path.
    """

    endpoint: str | None = None
    region: str | None = None
    key: str | None = None
    secret: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    is_virtual_hosted: bool = False
    is_anonymous: bool = False

    @staticmethod
    def of_environment(variables: Mapping[str, str] = os.environ) -> ObjectStore:
        """Return the store that delta-rs's variables describe, in upper or lower case."""
        options = {name.upper(): value for name, value in variables.items() if value}

        def first(*names: str) -> str | None:
            return next((options[name] for name in names if name in options), None)

        def is_true(name: str) -> bool:
            return options.get(name, "").lower() in _TRUE

        return ObjectStore(
            endpoint=first("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
            region=first("AWS_REGION", "AWS_DEFAULT_REGION"),
            key=first("AWS_ACCESS_KEY_ID"),
            secret=first("AWS_SECRET_ACCESS_KEY"),
            token=first("AWS_SESSION_TOKEN", "AWS_TOKEN"),
            is_virtual_hosted=is_true("AWS_VIRTUAL_HOSTED_STYLE_REQUEST"),
            is_anonymous=is_true("AWS_SKIP_SIGNATURE"),
        )

    @property
    def storage_options(self) -> dict[str, str]:
        """The known settings, with conditional puts, whatever the environment says of these."""
        known = {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": self.region,
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_SESSION_TOKEN": self.token,
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": str(self.is_virtual_hosted).lower(),
            "AWS_SKIP_SIGNATURE": str(self.is_anonymous).lower(),
            "AWS_CONDITIONAL_PUT": "etag",
            _OF_DELTA_RS: "false",
        }
        return {name: value for name, value in known.items() if value is not None}

    @property
    def has_safe_spark(self) -> bool:
        """Spark's commits are put without the condition: see Delta's S3SingleDriverLogStore.

        https://docs.delta.io/delta-storage/#amazon-s3
        """
        return False

    @property
    def keeps_first(self) -> bool:
        """Services differ: some overwrite."""
        return False

    @property
    def reads_ahead(self) -> bool:
        """A request takes longer than the transfer of its data."""
        return True

    def serves_sessions(self, *, is_local: bool) -> bool:
        """If the environment has a key, it is assumed to be the session's."""
        del is_local
        return self.key is not None

    @override
    def takes(self, path: str) -> bool:
        return _PLAIN.fullmatch(path) is not None

    @override
    def uri(self, path: str) -> str:
        return f"s3://{path}"

    @override
    def named(self, path: str) -> str:
        return f"s3a://{path}"

    @override
    def names(self, path: str) -> list[str]:
        return [info.base_name for info in self._entries_below(path)]

    @override
    def entries(self, path: str) -> list[Entry]:
        try:
            return sorted(map(_entry, self._entries_below(path)))
        except FileNotFoundError:
            return []

    @override
    def exists(self, path: str) -> bool:
        return bool(_opened(self).get_file_info(path).type != fs.FileType.NotFound)

    @override
    def read(self, path: str) -> Text:
        with _opened(self).open_input_stream(path) as file:
            modified = datetime.fromisoformat(file.metadata()["Last-Modified"].decode())
            text = file.readall().decode()
        return Text(text, int(modified.timestamp()) * 1_000_000_000)

    @override
    def write(self, path: str, text: str) -> None:
        with _opened(self).open_output_stream(path) as file:
            file.write(text.encode())

    @override
    def put_first(self, path: str, text: str) -> bool:
        """Pyarrow has no conditional put."""
        bucket, _, key = path.partition("/")
        try:
            obstore.put(_conditional(self, bucket), key, text.encode(), mode="create")
        except AlreadyExistsError:
            return False
        except BaseError as error:
            raise OSError(str(error)) from error
        return True

    @override
    def mark(self, path: str) -> object | None:
        try:
            with _opened(self).open_input_stream(path) as file:
                about = file.metadata()
        except OSError:
            return None
        return about.get("ETag"), about.get("Last-Modified"), about.get("Content-Length")

    @override
    def parquet(self, path: str) -> dict[str, Any]:
        return {"where": path, "filesystem": _opened(self)}

    @override
    def make_directory(self, path: str) -> None:
        """There are none."""
        del path

    @override
    def size(self, path: str) -> int:
        return int(_opened(self).get_file_info(path).size)

    @override
    def link(self, path: str, of: str) -> None:
        """The service copies it."""
        _opened(self).copy_file(of, path)

    @override
    def opened(self, path: str, *, written: bool = False) -> BinaryIO:
        system = _opened(self)
        stream: BinaryIO = (
            system.open_output_stream(path) if written else system.open_input_stream(path)
        )
        return stream

    def real(self, path: str) -> str:
        """There are no links."""
        return path

    def is_link(self, path: str) -> bool:
        """There are no links."""
        del path
        return False

    def is_linked(self, root: str, path: str) -> bool:
        """There are no links."""
        del root, path
        return False

    @override
    def remove_file(self, path: str) -> None:
        try:
            _opened(self).delete_file(path)
        except FileNotFoundError:
            return

    @override
    def remove_tree(self, path: str) -> None:
        opened = _opened(self)
        if opened.get_file_info(path).type == fs.FileType.File:
            opened.delete_file(path)
        else:
            opened.delete_dir(path)

    def remove_if_empty(self, path: str) -> None:
        """Remove what pyarrow leaves in place of a directory when its last file is removed."""
        if not self.entries(path):
            _opened(self).delete_dir(path)

    @override
    def silence(self, error: BaseException) -> str | None:
        text = str(error)
        if isinstance(error, FileNotFoundError) or _OF_A_KEY.search(text):
            return None
        if _SILENCE.search(text) is None:
            return None
        return escaped(" ".join(_ORNAMENTS.sub("", text).split()), limit=_LONGEST)

    def _entries_below(self, path: str) -> list[fs.FileInfo]:
        infos = _opened(self).get_file_info(fs.FileSelector(path))
        return [info for info in infos if info.base_name]


@cache
def _conditional(store: ObjectStore, bucket: str) -> S3Store:
    """Return the view of a bucket that puts files where there is none."""
    options: Any = {k: v for k, v in store.storage_options.items() if k != _OF_DELTA_RS}
    is_plain = (store.endpoint or "").startswith("http:")
    return S3Store(bucket, config=options, client_options={"allow_http": is_plain})


@cache
def _opened(store: ObjectStore) -> fs.S3FileSystem:
    """Return pyarrow's view of a service, which all threads share."""
    return fs.S3FileSystem(
        access_key=store.key,
        secret_key=store.secret,
        session_token=store.token,
        anonymous=store.is_anonymous,
        region=store.region,
        endpoint_override=store.endpoint,
        force_virtual_addressing=store.is_virtual_hosted,
        background_writes=False,
    )


def _entry(info: fs.FileInfo) -> Entry:
    is_directory = info.type == fs.FileType.Directory
    size, modified = (0, 0) if is_directory else (info.size, info.mtime_ns)
    return Entry(info.base_name, is_directory, False, size, modified)
