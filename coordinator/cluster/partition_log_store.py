"""Reads the log of a partition from the key-value store, seals its appends into segments, and encodes the
manifest that lists the segments.

A log consists of the segments that the manifest names, followed by one key for each append. Other keys below
`seg/` come from uploads that never took effect or no longer apply.
*Load.* The caller has claimed the partition before. All acknowledged records are then in the store, and
nothing changes during the load: appends and uploads of former owners compare an outdated token.
*Seal.* Pieces of 512 KiB are uploaded under an unused generation. Then one transaction, which compares the
token like every other, puts the manifest into force and deletes the appends below its end and all pieces that
it does not name. The next seal deletes the pieces of an interrupted upload. Sealed records were durable
before, so an append in flight is always past the end of the manifest. A repeated append that lands below that
end has no effect, and the next seal deletes it.
Each request is repeated while its result is unknown. An early attempt may take effect after the one with a
result. For an upload this is harmless, since it writes the same bytes. A change of the manifest therefore
also compares the manifest that it replaces; after a rejected attempt the store checks whether an earlier one
succeeded.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from coordinator.cluster.cluster_keys import ClusterKeys, UnreadableKey, format_key, parse_number
from coordinator.cluster.key_value_store import (
    ABSENT,
    Delete,
    KeyEntry,
    KeyPage,
    KeyValueStore,
    Put,
    ReadRange,
    StoreRequestTooLarge,
    StoreTransaction,
    StoreUnavailable,
    TransactionResult,
    WrittenAt,
)

MANIFEST_VERSION: Final = 1

PIECE_BYTES: Final = 512 * 1024
PAGE_KEYS: Final = 8
"""Initial number of keys in a read, each at most 1.5 MiB. It grows for small values."""
MAX_PAGE_KEYS: Final = 1000
_SMALL_PAGE_BYTES: Final = 256 * 1024
MAX_TRIES: Final = 20
RETRY_S: Final = 0.1
MAX_SEGMENTS: Final = 60
"""Maximum segments of a manifest, because a transaction has at most 128 operations by default."""
T = TypeVar("T")


class ManifestDamaged(Exception):
    """A manifest with invalid content."""


class SealedSegment(NamedTuple):
    """One segment, in pieces."""

    base_offset: int
    generation: int
    pieces: int
    size: int
    """Size in bytes."""


class Manifest(NamedTuple):
    """The manifest of one partition."""

    segments: tuple[SealedSegment, ...] = ()
    end_offset: int = 0
    """End offset of the segments. Appends below it have no effect."""
    cleaned_to: int = 0
    """End offset of the compacted part."""
    generation: int = 0
    """Generation of the last upload."""
    log_start_offset: int = 0
    """Earlier records are deleted, even if segments still have them. It may be above `end_offset`."""

    def trim_to(self, log_start_offset: int) -> "Manifest":
        """Return a manifest without the segments that lie wholly before an offset."""
        ends = [*(segment.base_offset for segment in self.segments[1:]), self.end_offset]
        kept = [each for each, end in zip(self.segments, ends, strict=False) if end > log_start_offset]
        return self._replace(segments=tuple(kept), log_start_offset=log_start_offset)

    @property
    def size(self) -> int:
        """Size of all segments in bytes."""
        return sum(segment.size for segment in self.segments)


def encode_manifest(manifest: Manifest) -> bytes:
    """Encode a manifest as it is stored."""
    fields = manifest._asdict() | {"segments": [list(each) for each in manifest.segments]}
    return json.dumps({"version": MANIFEST_VERSION} | fields).encode()


def decode_manifest(value: bytes) -> Manifest:
    """Decode a stored manifest. Raises ManifestDamaged."""
    try:
        fields: dict[str, Any] = json.loads(value)
        if fields["version"] != MANIFEST_VERSION:
            raise ManifestDamaged(
                f"a manifest has version {fields['version']!r} of another version of groupd, not {MANIFEST_VERSION}"
            )
        segments = tuple(SealedSegment(*map(int, each)) for each in fields["segments"])
        manifest = Manifest(
            segments=segments,
            end_offset=int(fields["end_offset"]),
            cleaned_to=int(fields["cleaned_to"]),
            generation=int(fields["generation"]),
            log_start_offset=int(fields.get("log_start_offset", 0)),
        )
    except (ValueError, TypeError, KeyError) as error:
        raise ManifestDamaged(f"a manifest is not valid: {error!r}") from error
    bases = [segment.base_offset for segment in segments]
    if bases != sorted(set(bases)) or (bases and bases[-1] >= manifest.end_offset):
        raise ManifestDamaged(f"the segments of a manifest overlap: {bases}, {manifest.end_offset}")
    return manifest


class TokenLost(Exception):
    """Another daemon owns the partition, or this daemon has another token."""


class UnsealedSegment(NamedTuple):
    """A segment to be sealed: batches from `base_offset` on."""

    base_offset: int
    batches: Sequence[bytes]


class PartitionLogStore:
    """The logs of one cluster."""

    def __init__(self, store: KeyValueStore, keys: ClusterKeys) -> None:
        self._store = store
        self._keys = keys

    async def read_manifest(self, topic: str, partition: int) -> Manifest:
        """Return the manifest; an empty one before the first seal. Raises KeyValueStoreError, ManifestDamaged."""
        return _parse_active_manifest(
            await self._read_range(ReadRange(self._keys.manifest(topic, partition)))
        )

    async def load_log(
        self, topic: str, partition: int, manifest: Manifest
    ) -> AsyncIterator[tuple[int, bytes]]:
        """Yield the whole log in order, as pairs of a segment's first offset and some of its complete batches.
        The appends after the manifest form a segment of their own. Raises KeyValueStoreError;
        ManifestDamaged if pieces are missing.
        """
        for sealed in manifest.segments:
            begin, end = self._keys.segment_range(topic, partition, sealed.base_offset, sealed.generation)
            size = 0
            async for page in self._iterate_pages(begin, end):
                data = b"".join([entry.value for entry in page])
                size += len(data)
                yield sealed.base_offset, data
            if size != sealed.size:
                raise ManifestDamaged(f"{size} bytes are there of a segment of {sealed.size}, {begin!r}")
        begin = self._keys.log(topic, partition, manifest.end_offset)
        first: int | None = None
        async for page in self._iterate_pages(begin, self._keys.log_range(topic, partition)[1]):
            if first is None:
                first = _parse_base_offset(page[0].key)
                if first != manifest.end_offset:
                    raise ManifestDamaged(
                        f"appends begin at {first}, and segments end at {manifest.end_offset}"
                    )
            yield first, b"".join([entry.value for entry in page])

    async def seal_segments(
        self,
        topic: str,
        partition: int,
        token: int,
        before: Manifest,
        kept: Sequence[SealedSegment],
        segments: Sequence[UnsealedSegment],
        end_offset: int,
        cleaned_to: int,
    ) -> Manifest:
        """Upload segments and activate a manifest with them.

        Args:
            topic: Name of the topic.
            partition: Number of the partition.
            token: Token of the owner.
            before: The current manifest.
            kept: Segments of `before` to keep, which precede the new ones.
            segments: New segments.
            end_offset: End offset of the new manifest. The store has all records before it.
            cleaned_to: End offset of the compacted part.

        Returns:
            The new manifest.

        Raises:
            TokenLost, KeyValueStoreError: As `upload_segment` and `activate_manifest`.
        """
        generation = find_next_generation(before, token)
        new = [
            await self.upload_segment(topic, partition, token, generation, segment) for segment in segments
        ]
        manifest = before._replace(
            segments=(*kept, *new), end_offset=end_offset, cleaned_to=cleaned_to, generation=generation
        )
        await self.activate_manifest(topic, partition, token, before, manifest)
        return manifest

    async def upload_segment(
        self, topic: str, partition: int, token: int, generation: int, segment: UnsealedSegment
    ) -> SealedSegment:
        """Upload a segment, which has no effect before `activate_manifest`. `generation` comes from
        `find_next_generation`. Raises TokenLost, KeyValueStoreError, after which the manifest is unchanged.
        """
        owns = WrittenAt(self._keys.owner(topic, partition), token)
        pieces = size = 0
        for piece in _split_pieces(segment.batches):
            key = self._keys.piece(topic, partition, segment.base_offset, generation, pieces)
            await self._transact(StoreTransaction((owns,), (Put(key, piece),)))
            pieces, size = pieces + 1, size + len(piece)
        return SealedSegment(segment.base_offset, generation, pieces, size)

    async def activate_manifest(
        self, topic: str, partition: int, token: int, before: Manifest, manifest: Manifest
    ) -> None:
        """Replace the manifest `before`, and delete all pieces that the new one does not name.

        Raises:
            TokenLost: The token is outdated, or the manifest is not `before`.
            KeyValueStoreError: The result is unknown, but the manifest is probably unchanged. The partition must be
                taken back before its next seal.
        """
        assert before.end_offset <= manifest.end_offset, (before.end_offset, manifest.end_offset)
        assert before.log_start_offset <= manifest.log_start_offset, (before, manifest)
        assert len(manifest.segments) <= MAX_SEGMENTS, len(manifest.segments)
        key = self._keys.manifest(topic, partition)
        page = await self._read_range(ReadRange(key))
        in_force, written_at = (
            _parse_active_manifest(page),
            page.entries[0].written_at if page.entries else ABSENT,
        )
        if in_force != before:
            raise TokenLost("another broker owns it")
        compares = WrittenAt(self._keys.owner(topic, partition), token), WrittenAt(key, written_at)
        put = Put(key, encode_manifest(manifest))
        begin = self._keys.log_range(topic, partition)[0]
        removed = Delete(begin, self._keys.log(topic, partition, manifest.end_offset))
        unnamed = self._delete_unnamed(topic, partition, manifest)
        try:
            await self._transact(StoreTransaction(compares, (put, removed, *unnamed)))
        except TokenLost:
            if _parse_active_manifest(await self._read_range(ReadRange(key))) != manifest:
                raise

    def _delete_unnamed(self, topic: str, partition: int, manifest: Manifest) -> list[Delete]:
        """Return deletions of all pieces that a manifest does not name."""
        begin, end = self._keys.segments_range(topic, partition)
        removed = []
        for sealed in manifest.segments:
            first, after = self._keys.segment_range(topic, partition, sealed.base_offset, sealed.generation)
            removed.append(Delete(begin, first))
            begin = after
        return [*removed, Delete(begin, end)]

    async def _iterate_pages(self, begin: bytes, end: bytes) -> AsyncIterator[Sequence[KeyEntry]]:
        """Yield the keys of a range in pages, none of them empty."""
        limit = PAGE_KEYS
        while True:
            try:
                page = await self._read_range(ReadRange(begin, end, limit))
            except StoreRequestTooLarge:
                if limit == PAGE_KEYS:
                    raise
                limit = PAGE_KEYS  # earlier values were smaller
                continue
            if page.entries:
                yield page.entries
            if not page.has_more:
                return
            begin = page.entries[-1].key + b"\0"
            is_small = sum(len(entry.value) for entry in page.entries) < _SMALL_PAGE_BYTES
            limit = min(limit * 4, MAX_PAGE_KEYS) if is_small else PAGE_KEYS

    async def _read_range(self, read: ReadRange) -> KeyPage:
        return await retry_unavailable(lambda: self._store.read(read))

    async def _transact(self, transaction: StoreTransaction) -> None:
        outcome: TransactionResult = await retry_unavailable(lambda: self._store.transact(transaction))
        if not outcome.succeeded:
            raise TokenLost("another broker owns it")


def _parse_active_manifest(page: KeyPage) -> Manifest:
    """Return the manifest of a key. Raises ManifestDamaged."""
    return decode_manifest(page.entries[0].value) if page.entries else Manifest()


def _parse_base_offset(key: bytes) -> int:
    """Return the first offset in a key of `ClusterKeys.log`. Raises ManifestDamaged."""
    try:
        return parse_number(key.rpartition(b"/")[2])
    except UnreadableKey as error:
        raise ManifestDamaged(f"the key {format_key(key)} does not end in an offset") from error


def find_next_generation(before: Manifest, token: int) -> int:
    """Return an unused generation. Pieces of a former owner's upload have a lower one: its token was lower than
    this, by more than the number of its seals.
    """
    return max(before.generation + 1, token)


async def retry_unavailable(ask: Callable[[], Awaitable[T]]) -> T:
    """Call `ask` again while its result is unknown, at most MAX_TRIES times. Raises the store's errors."""
    for _ in range(MAX_TRIES - 1):
        try:
            return await ask()
        except StoreUnavailable:
            await asyncio.sleep(RETRY_S)
    return await ask()


def _split_pieces(batches: Sequence[bytes]) -> Iterator[bytes]:
    """Join batches into pieces of at most PIECE_BYTES; a larger batch is a piece by itself."""
    piece: list[bytes] = []
    size = 0
    for batch in batches:
        if piece and size + len(batch) > PIECE_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
        piece.append(batch)
        size += len(batch)
    if piece:
        yield b"".join(piece)
