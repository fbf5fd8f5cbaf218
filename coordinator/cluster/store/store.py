"""Reads the log of a partition from the engine, and seals what gathers there.

*Load.* Whoever reads has claimed the partition before. All that was acknowledged is there then, and nothing changes
while it reads: appends and uploads of those before it compare a token that is no more.

*Seal.* Pieces of 512 KiB are uploaded under a generation that was never used. One transaction, which compares
the token as every one does, then puts the manifest in force, and removes the keys of appends below its end and all
pieces that it does not name. An upload that was broken off leaves pieces that the next seal removes. What is sealed
was durable before; so an append in flight is always past the end of the manifest. One that lands late, once more,
below that end counts for nothing, and is removed by the next seal.

Each request is repeated while its outcome is unknown. An early try may land late, after the one that was answered.
Of an upload that is harmless: it writes what it wrote before. Of what puts a manifest in force it would not be: the
next one may be in force by then. So that compares the manifest that it replaces as well, and a try that is refused
looks whether one before it was taken.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from coordinator.cluster.engine.engine import (
    ABSENT,
    Delete,
    Engine,
    Entry,
    Outcome,
    Page,
    Put,
    Read,
    TooLarge,
    Transaction,
    Unavailable,
    WrittenAt,
)
from coordinator.cluster.key_values import UnreadableKey, key_text, parse_number
from coordinator.cluster.keys import Keys
from coordinator.cluster.store.manifest import Damaged, Manifest, Sealed, decode, encode

PIECE_BYTES: Final = 512 * 1024
PAGE_KEYS: Final = 8
"""Read at a time, at first: none is larger than 1.5 MiB. More, where they are small."""
MOST_PAGE_KEYS: Final = 1000
_SMALL_PAGE_BYTES: Final = 256 * 1024
TRIES: Final = 20
RETRY_S: Final = 0.1
MOST_SEGMENTS: Final = 60
"""That a manifest may name: a transaction has 128 operations at the most."""

T = TypeVar("T")


class TokenLost(Exception):
    """Another owns the partition, or this one under another token."""


class Segment(NamedTuple):
    """What is to be sealed: batches from `base_offset` on."""

    base_offset: int
    batches: Sequence[bytes]


class Store:
    """The logs of one cluster."""

    def __init__(self, engine: Engine, keys: Keys) -> None:
        self._engine = engine
        self._keys = keys

    async def manifest(self, topic: str, partition: int) -> Manifest:
        """What is sealed; nothing, where nothing ever was. Raises EngineError, Damaged."""
        return _in_force(await self._read(Read(self._keys.manifest(topic, partition))))

    async def load(self, topic: str, partition: int, manifest: Manifest) -> AsyncIterator[tuple[int, bytes]]:
        """The whole log in order: the first offset of a segment, and whole batches of it. What was appended since
        the manifest is a segment of its own. Raises EngineError; Damaged where pieces are missing."""
        for sealed in manifest.segments:
            begin, end = self._keys.segment(topic, partition, sealed.base_offset, sealed.generation)
            size = 0
            async for page in self._pages(begin, end):
                data = b"".join([entry.value for entry in page])
                size += len(data)
                yield sealed.base_offset, data
            if size != sealed.size:
                raise Damaged(f"{size} bytes are there of a segment of {sealed.size}, {begin!r}")
        begin = self._keys.log(topic, partition, manifest.end_offset)
        first: int | None = None
        async for page in self._pages(begin, self._keys.whole_log(topic, partition)[1]):
            if first is None:
                first = _base_offset(page[0].key)
                if first != manifest.end_offset:
                    raise Damaged(f"appends begin at {first}, and segments end at {manifest.end_offset}")
            yield first, b"".join([entry.value for entry in page])

    async def seal(
        self,
        topic: str,
        partition: int,
        token: int,
        before: Manifest,
        kept: Sequence[Sealed],
        segments: Sequence[Segment],
        end_offset: int,
        cleaned_to: int,
    ) -> Manifest:
        """Uploads segments and puts them in force, after those of `before` that are kept, up to `end_offset`, all
        of which the engine has. Out: what is in force then. Raises as `upload` and `put_in_force`."""
        generation = next_generation(before, token)
        new = [await self.upload(topic, partition, token, generation, segment) for segment in segments]
        manifest = before._replace(
            segments=(*kept, *new), end_offset=end_offset, cleaned_to=cleaned_to, generation=generation
        )
        await self.put_in_force(topic, partition, token, before, manifest)
        return manifest

    async def upload(
        self, topic: str, partition: int, token: int, generation: int, segment: Segment
    ) -> Sealed:
        """Brings a segment to the engine, where it counts for nothing yet. In: a generation of `next_generation`.
        Raises TokenLost, EngineError; then what was in force still is."""
        owns = WrittenAt(self._keys.owner(topic, partition), token)
        pieces = size = 0
        for piece in _pieces(segment.batches):
            key = self._keys.piece(topic, partition, segment.base_offset, generation, pieces)
            await self._transact(Transaction((owns,), (Put(key, piece),)))
            pieces, size = pieces + 1, size + len(piece)
        return Sealed(segment.base_offset, generation, pieces, size)

    async def put_in_force(
        self, topic: str, partition: int, token: int, before: Manifest, manifest: Manifest
    ) -> None:
        """Has a manifest take the place of another one, and removes what it does not name. Raises TokenLost, also
        where another one is in force than `before`; EngineError; then what was in force mostly still is, and the
        partition has to be taken anew before it is sealed again."""
        assert before.end_offset <= manifest.end_offset, (before.end_offset, manifest.end_offset)
        assert before.log_start_offset <= manifest.log_start_offset, (before, manifest)
        assert len(manifest.segments) <= MOST_SEGMENTS, len(manifest.segments)
        key = self._keys.manifest(topic, partition)
        page = await self._read(Read(key))
        in_force, written_at = _in_force(page), page.entries[0].written_at if page.entries else ABSENT
        if in_force != before:
            raise TokenLost("another broker owns it")
        compares = WrittenAt(self._keys.owner(topic, partition), token), WrittenAt(key, written_at)
        put = Put(key, encode(manifest))
        begin = self._keys.whole_log(topic, partition)[0]
        removed = Delete(begin, self._keys.log(topic, partition, manifest.end_offset))
        unnamed = self._unnamed(topic, partition, manifest)
        try:
            await self._transact(Transaction(compares, (put, removed, *unnamed)))
        except TokenLost:
            if _in_force(await self._read(Read(key))) != manifest:
                raise

    def _unnamed(self, topic: str, partition: int, manifest: Manifest) -> list[Delete]:
        """Removes all pieces that a manifest does not name."""
        begin, end = self._keys.segments(topic, partition)
        removed = []
        for sealed in manifest.segments:
            first, after = self._keys.segment(topic, partition, sealed.base_offset, sealed.generation)
            removed.append(Delete(begin, first))
            begin = after
        return [*removed, Delete(begin, end)]

    async def _pages(self, begin: bytes, end: bytes) -> AsyncIterator[Sequence[Entry]]:
        """All keys of a range, some at a time; none is empty."""
        limit = PAGE_KEYS
        while True:
            try:
                page = await self._read(Read(begin, end, limit))
            except TooLarge:
                if limit == PAGE_KEYS:
                    raise
                limit = PAGE_KEYS  # those before were smaller
                continue
            if page.entries:
                yield page.entries
            if not page.has_more:
                return
            begin = page.entries[-1].key + b"\0"
            is_small = sum(len(entry.value) for entry in page.entries) < _SMALL_PAGE_BYTES
            limit = min(limit * 4, MOST_PAGE_KEYS) if is_small else PAGE_KEYS

    async def _read(self, read: Read) -> Page:
        return await repeated(lambda: self._engine.read(read))

    async def _transact(self, transaction: Transaction) -> None:
        outcome: Outcome = await repeated(lambda: self._engine.transact(transaction))
        if not outcome.succeeded:
            raise TokenLost("another broker owns it")


def _in_force(page: Page) -> Manifest:
    """What a manifest's key says. Raises Damaged."""
    return decode(page.entries[0].value) if page.entries else Manifest()


def _base_offset(key: bytes) -> int:
    """The first offset of what a key of `Keys.log` has. Raises Damaged."""
    try:
        return parse_number(key.rpartition(b"/")[2])
    except UnreadableKey as error:
        raise Damaged(f"the key {key_text(key)} does not end in an offset") from error


def next_generation(before: Manifest, token: int) -> int:
    """One that was never used. A former owner may have left pieces of an upload: its token was lower, by more than
    it has sealed since."""
    return max(before.generation + 1, token)


async def repeated(ask: Callable[[], Awaitable[T]]) -> T:
    """Asks again while the outcome is not known. Raises what else the engine says."""
    for _ in range(TRIES - 1):
        try:
            return await ask()
        except Unavailable:
            await asyncio.sleep(RETRY_S)
    return await ask()


def _pieces(batches: Sequence[bytes]) -> Iterator[bytes]:
    """The same batches, as many in a piece as fit."""
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
