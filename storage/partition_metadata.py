"""`partition.metadata`: which topic a log's directory belongs to.

Source: Kafka's `PartitionMetadataFile`.
"""

from typing import Final

from storage.errors import DamagedFile
from storage.files import Files
from storage.meta_properties import properties_of
from storage.uuid_text import TEXT_LENGTH, uuid_from_text, uuid_to_text

PARTITION_METADATA: Final = "partition.metadata"

_PARTITION_METADATA_BYTES: Final = len("version: 0\ntopic_id: ") + TEXT_LENGTH


def write_topic_id(files: Files, directory: str, topic_id: bytes) -> None:
    """Writes it to a log's directory, 16 bytes, without a sync: the catalogue can restore it. Raises OSError."""
    text = f"version: 0\ntopic_id: {uuid_to_text(topic_id)}\n"
    files.write(f"{directory}/{PARTITION_METADATA}", text.encode())


def read_topic_id(files: Files, directory: str) -> bytes | None:
    """From the partition.metadata in a log's directory, 16 bytes; None where it is missing or torn by a crash.

    Raises DamagedFile, OSError.
    """
    path = f"{directory}/{PARTITION_METADATA}"
    if not files.exists(path):
        return None
    data = files.read(path).rstrip(b"\0")
    if len(data) < _PARTITION_METADATA_BYTES:
        return None
    fields = properties_of(data, ":")
    if fields.get("version") != "0":
        raise DamagedFile(path, f"version {fields.get('version')!r} is not 0")
    try:
        return uuid_from_text(fields.get("topic_id", ""))
    except ValueError as error:
        raise DamagedFile(path, str(error)) from error
