"""Directories as compressed archives, for tests that start on a captured one."""

import io
import lzma
import os
import tarfile


def pack(directory: str, path: str) -> None:
    """Writes the directory to an archive at `path`. The same contents give the same bytes."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for folder, folders, names in os.walk(directory):
            folders.sort()
            for name in sorted([*folders, *names]):
                full = os.path.join(folder, name)
                archive.add(full, os.path.relpath(full, directory), recursive=False, filter=_anonymous)
    with open(path, "wb") as file:
        file.write(lzma.compress(raw.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def unpack(path: str, directory: str) -> None:
    """Extracts the archive at `path` into a directory."""
    with open(path, "rb") as file:
        raw = lzma.decompress(file.read())
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        archive.extractall(directory, filter="data")


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    return entry
