"""The partition of `__consumer_offsets` for a group, by Java's string hash as in Kafka.

Source: Kafka's `Utils.abs`, `GroupCoordinatorService.partitionFor`, `java.lang.String.hashCode`.
"""


def compute_java_hash(text: str) -> int:
    """Return Java's hash of a string, over its UTF-16 code units, as a signed 32-bit number."""
    value = 0
    if text.isascii():
        for unit in text.encode():
            value = (31 * value + unit) & 0xFFFFFFFF
    else:
        units = text.encode("utf-16-be", "surrogatepass")
        for position in range(0, len(units), 2):
            value = (31 * value + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return value - 0x100000000 if value >= 0x80000000 else value


def compute_group_number(group_id: str) -> int:
    """Return the non-negative number of a group; modulo the number of partitions it is the group's
    partition."""
    value = compute_java_hash(group_id)
    # The absolute value of the smallest int overflows in Java; Kafka uses 0 instead.
    return 0 if value == -0x80000000 else abs(value)


def partition_for(group_id: str, partitions: int) -> int:
    """Return the number of a group's partition among `partitions` partitions."""
    return compute_group_number(group_id) % partitions
