"""A wheel's members and what it says about itself, read from the zip without unpacking it."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile
from dataclasses import dataclass
from email.parser import Parser
from functools import cached_property
from pathlib import Path, PurePosixPath

from toolkit.errors import CheckFailedError
from toolkit.native.elf.image import MAGIC, Image


@dataclass(frozen=True)
class Wheel:
    """One wheel file: member names in the order of the zip (twice if they are there twice) and their bytes."""

    path: Path
    names: tuple[str, ...]
    members: dict[str, bytes]

    @classmethod
    def read(cls, path: Path) -> Wheel:
        """Read the file. Raises CheckFailedError if it is no wheel, or a member would land outside its folder."""
        try:
            with zipfile.ZipFile(path) as archive:
                names = tuple(info.filename for info in archive.infolist() if not info.is_dir())
                members = {name: archive.read(name) for name in names}
        except (OSError, zipfile.BadZipFile) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or str(error)
            fix = "set wheel=FILE to a built wheel"
            raise CheckFailedError("the wheel cannot be read", where=str(path), why=why, fix=fix) from error
        for name in names:
            parts = PurePosixPath(name)
            if parts.is_absolute() or ".." in parts.parts:
                raise CheckFailedError(f"the wheel has a member outside its folder: {name}", where=str(path))
        return cls(path, names, members)

    @cached_property
    def images(self) -> dict[str, Image]:
        """The ELF members by name."""
        return {name: Image(name, data).checked() for name, data in self.members.items() if data.startswith(MAGIC)}

    @cached_property
    def dist_info(self) -> str:
        """Name of the .dist-info folder; CheckFailedError unless there is exactly one."""
        folders = {name.split("/")[0] for name in self.names if name.split("/")[0].endswith(".dist-info")}
        if len(folders) != 1:
            raise CheckFailedError(f"the wheel has {len(folders)} .dist-info folders, not one", where=str(self.path))
        return folders.pop()

    @property
    def name(self) -> str:
        """Distribution name of the file name, such as volta_toolkit."""
        return self.path.name.split("-")[0]

    @property
    def version(self) -> str:
        """Version of the file name."""
        return self.path.name.split("-")[1]

    @property
    def tag(self) -> str:
        """Compatibility tag of the file name."""
        return "-".join(self.path.name.removesuffix(".whl").split("-")[-3:])

    def header(self, file: str, field: str) -> tuple[str, ...]:
        """Values of a field in METADATA or WHEEL; empty if the file or the field is missing."""
        text = self.members.get(f"{self.dist_info}/{file}", b"").decode(errors="replace")
        return tuple(Parser().parsestr(text).get_all(field, []))

    @cached_property
    def record(self) -> dict[str, tuple[str, str]]:
        """RECORD: member name to (hash field, size field)."""
        text = self.members.get(f"{self.dist_info}/RECORD", b"").decode(errors="replace")
        return {row[0]: (row[1], row[2]) for row in csv.reader(io.StringIO(text)) if len(row) == 3}


def record_entry(data: bytes) -> tuple[str, str]:
    """What RECORD must say about a member: its urlsafe base64 SHA-256 without padding, and its size."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"sha256={digest}", str(len(data))
