"""`meta.properties`: whose data directory it is.

Source: Kafka's `MetaProperties`.
"""

from typing import Final, NamedTuple

from storage.errors import DamagedFile
from storage.files import Files

META_PROPERTIES: Final = "meta.properties"
HAS_SECURITY: Final = "groupd.has.security=true"
"""The line of a directory that has ACLs and users. Kafka passes over properties that it does not know."""


class MetaProperties(NamedTuple):
    """Whose directory it is."""

    cluster_id: str
    node_id: int
    directory_id: str
    has_security: bool = False
    """Whether ACLs and users were kept in the directory: then a start without their file must not go unnoticed."""


def read_or_write_meta(files: Files, path: str, new: MetaProperties) -> MetaProperties:
    """What is at a path; where there is nothing, what is new goes there. Raises DamagedFile, OSError."""
    if not files.exists(path):
        lines = {
            "version": "1",
            "cluster.id": new.cluster_id,
            "node.id": str(new.node_id),
            "directory.id": new.directory_id,
        }
        text = "#\n" + "".join(f"{key}={value}\n" for key, value in lines.items())
        files.write_atomically(path, text.encode())
        return new
    found = properties_of(files.read(path), "=")
    try:
        # Version 0, of the ZooKeeper days, calls the node a broker and gives the directory no id.
        node_id = int(found["node.id"] if found.get("version") == "1" else found["broker.id"])
        name, _, value = HAS_SECURITY.partition("=")
        directory_id = found.get("directory.id", new.directory_id)
        return MetaProperties(found["cluster.id"], node_id, directory_id, found.get(name) == value)
    except (KeyError, ValueError) as error:
        raise DamagedFile(path, f"is not Kafka's meta.properties: {error}") from error


def add_has_security(files: Files, path: str) -> None:
    """Add the line `HAS_SECURITY` to the file at `path`, durably. Raises OSError."""
    text = files.read(path)
    end = b"" if text.endswith(b"\n") else b"\n"
    files.write_atomically(path, text + end + HAS_SECURITY.encode() + b"\n")


def properties_of(data: bytes, separator: str) -> dict[str, str]:
    """Names and values of a properties file of Kafka's: a line each, with a separator in between."""
    fields = {}
    for line in data.decode("utf-8", "replace").splitlines():
        name, found, value = line.partition(separator)
        if found and not line.startswith(("#", "!")):
            fields[name.strip()] = value.strip().replace("\\:", ":").replace("\\=", "=")
    return fields
