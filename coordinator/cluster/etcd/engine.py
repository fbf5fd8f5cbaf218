"""The engine of a cluster on etcd: each call is one try at one endpoint, the next try after a failure at another.

A channel to each endpoint is kept; a failure moves on to the next. Calls have deadlines of their own and no pings:
etcd hangs up on who pings more often than every 5 s. A follower that holds a request for a leader that is dead lets
the deadline pass, which is short for that.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple

import grpc
import grpc.aio

from coordinator.cluster.engine.engine import (
    Changes,
    Compacted,
    CreatedAt,
    Denied,
    EngineError,
    LeaseGone,
    NoSpace,
    Outcome,
    Page,
    Put,
    Read,
    TooLarge,
    Transaction,
    Unavailable,
)
from coordinator.cluster.engine.node_status import NodeStatus
from coordinator.cluster.etcd.messages import MESSAGES, created_at, written_at
from coordinator.cluster.etcd.watch_stream import entry_of, watch_stream

_LOG: Final = logging.getLogger("Cluster")
_READ_TIMEOUT_S: Final = 5.0
_LOGIN_TIMEOUT_S: Final = 3.0
"""At least: etcd hashes the password on purpose for a tenth of a second of a processor that may be busy."""
_WATCH_RETRY_S: Final = 0.1
_MOST_BYTES: Final = 64 << 20
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", _MOST_BYTES),
    ("grpc.max_send_message_length", _MOST_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
)


class Credentials(NamedTuple):
    """What etcd wants to see; empty texts and None for what it does not."""

    username: str = ""
    password: str = ""
    ca: bytes | None = None
    certificate: bytes | None = None
    key: bytes | None = None


class EtcdEngine:
    """An `Engine`. All methods belong to the event loop's thread."""

    def __init__(self, endpoints: Sequence[str], timeout_ms: int, credentials: Credentials) -> None:
        """In: HOST:PORT of each node; how long a try of a transaction may take."""
        assert endpoints
        self.endpoints = tuple(endpoints)
        self._timeout_s = timeout_ms / 1000
        self._credentials = credentials
        self._channels: list[grpc.aio.Channel | None] = [None] * len(endpoints)
        self._at = 0
        self._token = ""

    async def transact(self, transaction: Transaction) -> Outcome:
        """See `Engine`. A proof has a linearizable read in it: a comparison alone a follower would answer by
        itself."""
        request = MESSAGES["TxnRequest"]()
        for compare in transaction.compares:
            one = created_at if isinstance(compare, CreatedAt) or not compare.revision else written_at
            request.compare.append(one(compare.key, compare.revision))
        for operation in transaction.operations:
            entry = request.success.add()
            if isinstance(operation, Put):
                entry.request_put.key, entry.request_put.value = operation.key, operation.value
                entry.request_put.lease = operation.lease
            else:
                entry.request_delete_range.key = operation.key
                entry.request_delete_range.range_end = operation.end or b""
        if not transaction.operations and transaction.compares:
            request.success.add().request_range.key = transaction.compares[0].key
        answer = await self._call("KV/Txn", request, "TxnResponse", self._timeout_s)
        return Outcome(answer.succeeded, answer.header.revision)

    async def read(self, read: Read) -> Page:
        """See `Engine`."""
        request = MESSAGES["RangeRequest"](
            key=read.key, range_end=read.end or b"", limit=read.limit, revision=read.revision
        )
        timeout_s = self._timeout_s if read.end is None else _READ_TIMEOUT_S
        answer = await self._call("KV/Range", request, "RangeResponse", timeout_s)
        return Page(tuple(entry_of(each) for each in answer.kvs), answer.more, answer.header.revision)

    async def grant(self, ttl_s: int) -> int:
        """See `Engine`."""
        request = MESSAGES["LeaseGrantRequest"](TTL=ttl_s)
        answer = await self._call("Lease/LeaseGrant", request, "LeaseGrantResponse", self._timeout_s)
        if ttl_s < answer.TTL:
            _LOG.warning("etcd ends sessions after %d s, not after %d s", answer.TTL, ttl_s)
        lease: int = answer.ID
        return lease

    async def keep_alive(self, lease: int) -> None:
        """See `Engine`."""
        request = MESSAGES["LeaseKeepAliveRequest"](ID=lease)
        method = "/etcdserverpb.Lease/LeaseKeepAlive"

        async def ask(channel: grpc.aio.Channel, metadata: Any) -> Any:
            call = channel.stream_stream(
                method,
                request_serializer=type(request).SerializeToString,
                response_deserializer=MESSAGES["LeaseKeepAliveResponse"].FromString,
            )(timeout=self._timeout_s, metadata=metadata)
            try:
                await call.write(request)
                answer = await call.read()
                if answer is grpc.aio.EOF:
                    raise Unavailable("no answer to a renewal")
                return answer
            finally:
                call.cancel()

        answer = await self._tried(ask)
        if answer.TTL <= 0:
            raise LeaseGone(f"lease {lease:x}")

    async def revoke(self, lease: int) -> None:
        """See `Engine`."""
        request = MESSAGES["LeaseRevokeRequest"](ID=lease)
        try:
            await self._call("Lease/LeaseRevoke", request, "LeaseRevokeResponse", self._timeout_s)
        except LeaseGone:
            return

    async def watch(self, begin: bytes, end: bytes, revision: int) -> AsyncIterator[Changes]:
        """See `Engine`. What comes twice after an endpoint was lost is given once."""
        assert revision > 0, revision
        is_denied = False
        while True:
            try:
                async with aclosing(self._watch_once(begin, end, revision)) as found:
                    async for changes in found:
                        is_denied = False
                        if changes.revision >= revision:
                            yield changes
                            revision = changes.revision + 1
            except Denied:
                # To who is no longer known a watch says the same: one more try, with a new token.
                if is_denied or not self._token:
                    raise
                is_denied, self._token = True, ""
            except Unavailable:
                await asyncio.sleep(_WATCH_RETRY_S)

    async def _watch_once(self, begin: bytes, end: bytes, revision: int) -> AsyncGenerator[Changes, None]:
        at = self._at
        try:
            channel, metadata = await self._channel()
            async with aclosing(watch_stream(channel, metadata, begin, end, revision)) as found:
                async for changes in found:
                    yield changes
        except grpc.aio.AioRpcError as error:
            self._move_on(at)
            raise self._meant(error) from error
        except Unavailable:
            self._move_on(at)
            raise

    async def version(self) -> str:
        """The release of the node that is asked."""
        answer = await self._call(
            "Maintenance/Status", MESSAGES["StatusRequest"](), "StatusResponse", self._timeout_s
        )
        return str(answer.version)

    async def nodes(self) -> list[NodeStatus]:
        """How each node is, of those that are known. Raises nothing."""
        return list(await asyncio.gather(*map(self._node, range(len(self.endpoints)))))

    async def _node(self, at: int) -> NodeStatus:
        endpoint = self.endpoints[at]
        try:
            channel, metadata = await self._channel(at)
            answer = await self._ask(
                channel, metadata, "Maintenance/Status", MESSAGES["StatusRequest"](), "StatusResponse"
            )
        except grpc.aio.AioRpcError as error:
            return NodeStatus(endpoint, problem=str(self._meant(error)))
        return NodeStatus(
            endpoint,
            answer.version,
            is_leader=answer.leader != 0 and answer.leader == answer.header.member_id,
            has_leader=answer.leader != 0,
            size_bytes=answer.dbSize,
            quota_bytes=answer.dbSizeQuota,
            is_full=any("NOSPACE" in text for text in answer.errors),
        )

    async def lease_left_s(self, lease: int) -> int:
        """Until a lease ends, if nobody renews it; 0 for one that is gone. Raises EngineError."""
        request = MESSAGES["LeaseTimeToLiveRequest"](ID=lease)
        answer = await self._call(
            "Lease/LeaseTimeToLive", request, "LeaseTimeToLiveResponse", self._timeout_s
        )
        return max(0, int(answer.TTL))

    async def close(self) -> None:
        """See `Engine`."""
        for channel in self._channels:
            if channel is not None:
                await channel.close(None)
        self._channels = [None] * len(self._channels)

    # One try

    async def _call(self, method: str, request: Any, answer: str, timeout_s: float) -> Any:
        async def ask(channel: grpc.aio.Channel, metadata: Any) -> Any:
            return await self._ask(channel, metadata, method, request, answer, timeout_s)

        return await self._tried(ask)

    async def _ask(
        self,
        channel: grpc.aio.Channel,
        metadata: Any,
        method: str,
        request: Any,
        answer: str,
        timeout_s: float | None = None,
    ) -> Any:
        return await channel.unary_unary(
            f"/etcdserverpb.{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=MESSAGES[answer].FromString,
        )(request, timeout=timeout_s or self._timeout_s, metadata=metadata)

    async def _tried(self, ask: Callable[[grpc.aio.Channel, Any], Awaitable[Any]]) -> Any:
        at = self._at
        try:
            channel, metadata = await self._channel()
            return await ask(channel, metadata)
        except grpc.aio.AioRpcError as error:
            meant = self._meant(error)
            if isinstance(meant, Unavailable):
                self._move_on(at)
            raise meant from error
        except Unavailable:
            self._move_on(at)
            raise

    def _move_on(self, at: int) -> None:
        """The next try is at the next endpoint, unless somebody has moved on already."""
        if self._at == at:
            self._at = (at + 1) % len(self.endpoints)

    async def _channel(self, at: int | None = None) -> tuple[grpc.aio.Channel, tuple[tuple[str, str], ...]]:
        """To an endpoint, by default the one whose turn it is."""
        at = self._at if at is None else at
        channel = self._channels[at]
        if channel is None:
            channel = self._channels[at] = self._connect(self.endpoints[at])
        if self._credentials.username and not self._token:
            request = MESSAGES["AuthenticateRequest"](
                name=self._credentials.username, password=self._credentials.password
            )
            timeout_s = max(self._timeout_s, _LOGIN_TIMEOUT_S)
            answer = await self._ask(
                channel, (), "Auth/Authenticate", request, "AuthenticateResponse", timeout_s
            )
            self._token = answer.token
        return channel, (("token", self._token),) if self._token else ()

    def _connect(self, endpoint: str) -> grpc.aio.Channel:
        of = self._credentials
        if of.ca is None:
            return grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
        tls = grpc.ssl_channel_credentials(of.ca, of.key, of.certificate)
        return grpc.aio.secure_channel(endpoint, tls, options=_OPTIONS)

    def _meant(self, error: grpc.aio.AioRpcError) -> EngineError:
        code, text = error.code(), error.details() or ""
        if "invalid auth token" in text or "auth: revision in header is old" in text:
            self._token = ""
            return Unavailable(text)
        if "lease not found" in text:
            return LeaseGone(text)
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "space" in text:
            return NoSpace(text)
        too_large = ("request is too large", "too many operations", "received message larger than max")
        if any(words in text for words in too_large):
            return TooLarge(text)
        if "has been compacted" in text:
            return Compacted(text)
        denied = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED)
        refused = ("authentication failed", "user name is empty", "authentication is not enabled")
        if code in denied or any(words in text for words in refused):
            return Denied(text)
        return Unavailable(f"{code.name}: {text}")
