"""`meta.properties`, which names the cluster and the node of a data directory, and `partition.metadata`,
which names the topic of a log's directory. Source: Kafka's `MetaProperties`, `PartitionMetadataFile`.
"""

from typing import Final, NamedTuple

from storage.files import Files
from storage.storage_errors import DamagedFile
from storage.topic_partition import TEXT_LENGTH, uuid_from_text, uuid_to_text

META_PROPERTIES: Final = "meta.properties"
HAS_SECURITY: Final = "groupd.has.security=true"
"""The line for a directory with ACLs and users. Kafka ignores unknown properties."""

PARTITION_METADATA: Final = "partition.metadata"
_PARTITION_METADATA_BYTES: Final = len("version: 0\ntopic_id: ") + TEXT_LENGTH


class MetaProperties(NamedTuple):
    """The cluster and the node that own a data directory."""

    cluster_id: str
    node_id: int
    directory_id: str
    has_security: bool = False
    """Whether ACLs and users were stored in the directory. A start without their file must then fail."""


def read_or_write_meta(files: Files, path: str, new: MetaProperties) -> MetaProperties:
    """Return the properties at a path. Write `new` if the file is missing. Raises DamagedFile, OSError."""
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
    found = parse_properties(files.read(path), "=")
    try:
        # Version 0, from the time of ZooKeeper, has a broker id for the node and no id for the directory.
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


def write_topic_id(files: Files, directory: str, topic_id: bytes) -> None:
    """Write the topic id (16 bytes) to a log's directory, without a sync, because the catalogue can restore
    it. Raises OSError."""
    text = f"version: 0\ntopic_id: {uuid_to_text(topic_id)}\n"
    files.write(f"{directory}/{PARTITION_METADATA}", text.encode())


def read_topic_id(files: Files, directory: str) -> bytes | None:
    """Return the topic id (16 bytes) from the partition.metadata of a log's directory. Return None for a
    missing file, or one torn by a crash.

    Raises DamagedFile, OSError.
    """
    path = f"{directory}/{PARTITION_METADATA}"
    if not files.exists(path):
        return None
    data = files.read(path).rstrip(b"\0")
    if len(data) < _PARTITION_METADATA_BYTES:
        return None
    fields = parse_properties(data, ":")
    if fields.get("version") != "0":
        raise DamagedFile(path, f"version {fields.get('version')!r} is not 0")
    try:
        return uuid_from_text(fields.get("topic_id", ""))
    except ValueError as error:
        raise DamagedFile(path, str(error)) from error


def parse_properties(data: bytes, separator: str) -> dict[str, str]:
    """Return the names and values of a properties file in Kafka's form: one per line, with a separator."""
    fields = {}
    for line in data.decode("utf-8", "replace").splitlines():
        name, found, value = line.partition(separator)
        if found and not line.startswith(("#", "!")):
            fields[name.strip()] = value.strip().replace("\\:", ":").replace("\\=", "=")
    return fields
