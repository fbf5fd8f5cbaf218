"""What of a partition lies in which sealed segments: the value of its manifest key.

A log in the engine is the segments that the manifest names, and after their end one key for each append. What
lies elsewhere below `seg/` is of an upload that was never put in force, or is not any more.
"""

import json
from typing import Any, Final, NamedTuple

VERSION: Final = 1


class Damaged(Exception):
    """A manifest that makes no sense."""


class Sealed(NamedTuple):
    """One segment, in pieces."""

    base_offset: int
    generation: int
    pieces: int
    size: int
    """In bytes."""


class Manifest(NamedTuple):
    """Of one partition."""

    segments: tuple[Sealed, ...] = ()
    end_offset: int = 0
    """Where the segments end: keys of appends below it count for nothing."""
    cleaned_to: int = 0
    """Up to where it was compacted."""
    generation: int = 0
    """Of the last upload."""
    log_start_offset: int = 0
    """What is before it was deleted, as far as segments have it still; that may go beyond them."""

    def starting_at(self, log_start_offset: int) -> "Manifest":
        """The same without what is before an offset: segments go as wholes."""
        ends = [*(segment.base_offset for segment in self.segments[1:]), self.end_offset]
        kept = [each for each, end in zip(self.segments, ends, strict=False) if end > log_start_offset]
        return self._replace(segments=tuple(kept), log_start_offset=log_start_offset)

    @property
    def size(self) -> int:
        """Of all segments, in bytes."""
        return sum(segment.size for segment in self.segments)


def encode(manifest: Manifest) -> bytes:
    """As it is stored."""
    fields = manifest._asdict() | {"segments": [list(each) for each in manifest.segments]}
    return json.dumps({"version": VERSION} | fields).encode()


def decode(value: bytes) -> Manifest:
    """The same again. Raises Damaged."""
    try:
        fields: dict[str, Any] = json.loads(value)
        if fields["version"] != VERSION:
            raise Damaged(
                f"a manifest has version {fields['version']!r} of another version of groupd, not {VERSION}"
            )
        segments = tuple(Sealed(*map(int, each)) for each in fields["segments"])
        manifest = Manifest(
            segments=segments,
            end_offset=int(fields["end_offset"]),
            cleaned_to=int(fields["cleaned_to"]),
            generation=int(fields["generation"]),
            log_start_offset=int(fields.get("log_start_offset", 0)),
        )
    except (ValueError, TypeError, KeyError) as error:
        raise Damaged(f"a manifest makes no sense: {error!r}") from error
    bases = [segment.base_offset for segment in segments]
    if bases != sorted(set(bases)) or (bases and bases[-1] >= manifest.end_offset):
        raise Damaged(f"the segments of a manifest overlap: {bases}, {manifest.end_offset}")
    return manifest
