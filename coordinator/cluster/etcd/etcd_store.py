"""`KeyValueStore` on etcd 3.4 and later: calls, watches, and the messages of etcd's API. All methods belong
to the thread of the event loop.

Each call is one attempt at one endpoint, with its own deadline; a failure moves the next attempt to the next
endpoint. One channel to each endpoint is kept. Deadlines are short, because a follower that holds a request
for a dead leader fails only by its deadline. There are no HTTP/2 pings: etcd disconnects clients that ping
more often than every 5 s.
A watch requests its progress after a silent second, and fails when the node stays silent (nodes answer such
requests from 3.4 on). A suspended or unreachable node keeps its connection open and sends nothing, like a
node without changes.
Messages are declared by name and `NUMBER NAME TYPE`, numbered as in etcd's published definitions
(`etcdserverpb`, `mvccpb`). TYPE is a scalar or another message; `*` repeats it. Unknown fields of newer
versions are ignored.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple

import grpc
import grpc.aio
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from coordinator.cluster.key_value_store import (
    CreatedAt,
    EtcdNodeStatus,
    KeyChanges,
    KeyEntry,
    KeyPage,
    KeyValueStoreError,
    LeaseExpired,
    Put,
    ReadRange,
    RevisionsCompacted,
    StoreAccessDenied,
    StoreFull,
    StoreRequestTooLarge,
    StoreTransaction,
    StoreUnavailable,
    TransactionResult,
)

_LOG: Final = logging.getLogger("Cluster")
_READ_TIMEOUT_S: Final = 5.0
_LOGIN_TIMEOUT_S: Final = 3.0
"""Minimum timeout of a login: etcd's password hash takes 0.1 s of CPU time by design, more on a busy machine."""
_WATCH_RETRY_S: Final = 0.1

_PROGRESS_AFTER_S: Final = 1.0
_UNRESPONSIVE_AFTER_S: Final = 2.0
_MAX_MESSAGE_BYTES: Final = 64 << 20
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
)


class EtcdCredentials(NamedTuple):
    """Credentials of the connection to etcd; empty strings and None for the unused ones."""

    username: str = ""
    password: str = ""
    ca: bytes | None = None
    certificate: bytes | None = None
    key: bytes | None = None


class EtcdStore:
    """A `KeyValueStore` on etcd. All methods belong to the event loop's thread."""

    def __init__(self, endpoints: Sequence[str], timeout_ms: int, credentials: EtcdCredentials) -> None:
        """Create a store. `endpoints` are HOST:PORT of each node, `timeout_ms` is the deadline of one attempt."""
        assert endpoints
        self.endpoints = tuple(endpoints)
        self._timeout_s = timeout_ms / 1000
        self._credentials = credentials
        self._channels: list[grpc.aio.Channel | None] = [None] * len(endpoints)
        self._endpoint_index = 0
        self._token = ""

    async def transact(self, transaction: StoreTransaction) -> TransactionResult:
        """Apply a transaction. A proof includes a linearizable read, because followers compare locally."""
        request = MESSAGES["TxnRequest"]()
        for compare in transaction.compares:
            create_compare = (
                compare_creation if isinstance(compare, CreatedAt) or not compare.revision else compare_write
            )
            request.compare.append(create_compare(compare.key, compare.revision))
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
        answer = await self._call_method("KV/Txn", request, "TxnResponse", self._timeout_s)
        return TransactionResult(answer.succeeded, answer.header.revision)

    async def read(self, read: ReadRange) -> KeyPage:
        request = MESSAGES["RangeRequest"](
            key=read.key, range_end=read.end or b"", limit=read.limit, revision=read.revision
        )
        timeout_s = self._timeout_s if read.end is None else _READ_TIMEOUT_S
        answer = await self._call_method("KV/Range", request, "RangeResponse", timeout_s)
        return KeyPage(tuple(create_entry(each) for each in answer.kvs), answer.more, answer.header.revision)

    async def grant_lease(self, ttl_s: int) -> int:
        request = MESSAGES["LeaseGrantRequest"](TTL=ttl_s)
        answer = await self._call_method("Lease/LeaseGrant", request, "LeaseGrantResponse", self._timeout_s)
        if ttl_s < answer.TTL:
            _LOG.warning("etcd ends sessions after %d s, not after %d s", answer.TTL, ttl_s)
        lease: int = answer.ID
        return lease

    async def renew_lease(self, lease: int) -> None:
        request = MESSAGES["LeaseKeepAliveRequest"](ID=lease)
        method = "/etcdserverpb.Lease/LeaseKeepAlive"

        async def send_keep_alive(channel: grpc.aio.Channel, metadata: Any) -> Any:
            call = channel.stream_stream(
                method,
                request_serializer=type(request).SerializeToString,
                response_deserializer=MESSAGES["LeaseKeepAliveResponse"].FromString,
            )(timeout=self._timeout_s, metadata=metadata)
            try:
                await call.write(request)
                answer = await call.read()
                if answer is grpc.aio.EOF:
                    raise StoreUnavailable("no answer to a renewal")
                return answer
            finally:
                call.cancel()

        answer = await self._try_once(send_keep_alive)
        if answer.TTL <= 0:
            raise LeaseExpired(f"lease {lease:x}")

    async def revoke_lease(self, lease: int) -> None:
        request = MESSAGES["LeaseRevokeRequest"](ID=lease)
        try:
            await self._call_method("Lease/LeaseRevoke", request, "LeaseRevokeResponse", self._timeout_s)
        except LeaseExpired:
            return

    async def watch(self, begin: bytes, end: bytes, revision: int) -> AsyncIterator[KeyChanges]:
        """Iterate over changes, each once, even if an endpoint repeats them after a failover."""
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
            except StoreAccessDenied:
                # A watch with an expired token gets the same error: make one more attempt with a new token.
                if is_denied or not self._token:
                    raise
                is_denied, self._token = True, ""
            except StoreUnavailable:
                await asyncio.sleep(_WATCH_RETRY_S)

    async def _watch_once(self, begin: bytes, end: bytes, revision: int) -> AsyncGenerator[KeyChanges, None]:
        index = self._endpoint_index
        try:
            channel, metadata = await self._open_channel()
            async with aclosing(stream_changes(channel, metadata, begin, end, revision)) as found:
                async for changes in found:
                    yield changes
        except grpc.aio.AioRpcError as error:
            self._use_next_endpoint(index)
            raise self._map_error(error) from error
        except StoreUnavailable:
            self._use_next_endpoint(index)
            raise

    async def fetch_version(self) -> str:
        """Return the release of the connected node. Raises KeyValueStoreError."""
        answer = await self._call_method(
            "Maintenance/Status", MESSAGES["StatusRequest"](), "StatusResponse", self._timeout_s
        )
        return str(answer.version)

    async def fetch_node_statuses(self) -> list[EtcdNodeStatus]:
        """Return the status of every configured node. Raises nothing."""
        return list(await asyncio.gather(*map(self._fetch_node_status, range(len(self.endpoints)))))

    async def _fetch_node_status(self, index: int) -> EtcdNodeStatus:
        endpoint = self.endpoints[index]
        try:
            channel, metadata = await self._open_channel(index)
            answer = await self._send_request(
                channel, metadata, "Maintenance/Status", MESSAGES["StatusRequest"](), "StatusResponse"
            )
        except grpc.aio.AioRpcError as error:
            return EtcdNodeStatus(endpoint, problem=str(self._map_error(error)))
        return EtcdNodeStatus(
            endpoint,
            answer.version,
            is_leader=answer.leader != 0 and answer.leader == answer.header.member_id,
            has_leader=answer.leader != 0,
            size_bytes=answer.dbSize,
            quota_bytes=answer.dbSizeQuota,
            is_full=any("NOSPACE" in text for text in answer.errors),
        )

    async def fetch_lease_left_s(self, lease: int) -> int:
        """Return the seconds until a lease ends without a renewal; 0 after its end. Raises KeyValueStoreError."""
        request = MESSAGES["LeaseTimeToLiveRequest"](ID=lease)
        answer = await self._call_method(
            "Lease/LeaseTimeToLive", request, "LeaseTimeToLiveResponse", self._timeout_s
        )
        return max(0, int(answer.TTL))

    async def close(self) -> None:
        for channel in self._channels:
            if channel is not None:
                await channel.close(None)
        self._channels = [None] * len(self._channels)

    # Attempts

    async def _call_method(self, method: str, request: Any, answer: str, timeout_s: float) -> Any:
        async def send(channel: grpc.aio.Channel, metadata: Any) -> Any:
            return await self._send_request(channel, metadata, method, request, answer, timeout_s)

        return await self._try_once(send)

    async def _send_request(
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

    async def _try_once(self, ask: Callable[[grpc.aio.Channel, Any], Awaitable[Any]]) -> Any:
        index = self._endpoint_index
        try:
            channel, metadata = await self._open_channel()
            return await ask(channel, metadata)
        except grpc.aio.AioRpcError as error:
            mapped = self._map_error(error)
            if isinstance(mapped, StoreUnavailable):
                self._use_next_endpoint(index)
            raise mapped from error
        except StoreUnavailable:
            self._use_next_endpoint(index)
            raise

    def _use_next_endpoint(self, index: int) -> None:
        """Use the next endpoint from now on, unless another call has already moved on."""
        if self._endpoint_index == index:
            self._endpoint_index = (index + 1) % len(self.endpoints)

    async def _open_channel(
        self, index: int | None = None
    ) -> tuple[grpc.aio.Channel, tuple[tuple[str, str], ...]]:
        """Return the channel to an endpoint, by default the current one, and the metadata of its calls."""
        index = self._endpoint_index if index is None else index
        channel = self._channels[index]
        if channel is None:
            channel = self._channels[index] = self._connect(self.endpoints[index])
        if self._credentials.username and not self._token:
            request = MESSAGES["AuthenticateRequest"](
                name=self._credentials.username, password=self._credentials.password
            )
            timeout_s = max(self._timeout_s, _LOGIN_TIMEOUT_S)
            answer = await self._send_request(
                channel, (), "Auth/Authenticate", request, "AuthenticateResponse", timeout_s
            )
            self._token = answer.token
        return channel, (("token", self._token),) if self._token else ()

    def _connect(self, endpoint: str) -> grpc.aio.Channel:
        credentials = self._credentials
        if credentials.ca is None:
            return grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
        tls = grpc.ssl_channel_credentials(credentials.ca, credentials.key, credentials.certificate)
        return grpc.aio.secure_channel(endpoint, tls, options=_OPTIONS)

    def _map_error(self, error: grpc.aio.AioRpcError) -> KeyValueStoreError:
        code, text = error.code(), error.details() or ""
        if "invalid auth token" in text or "auth: revision in header is old" in text:
            self._token = ""
            return StoreUnavailable(text)
        if "lease not found" in text:
            return LeaseExpired(text)
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "space" in text:
            return StoreFull(text)
        too_large = ("request is too large", "too many operations", "received message larger than max")
        if any(phrase in text for phrase in too_large):
            return StoreRequestTooLarge(text)
        if "has been compacted" in text:
            return RevisionsCompacted(text)
        denied = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED)
        refused = ("authentication failed", "user name is empty", "authentication is not enabled")
        if code in denied or any(phrase in text for phrase in refused):
            return StoreAccessDenied(text)
        return StoreUnavailable(f"{code.name}: {text}")


_PACKAGE: Final = "groupd.etcd"
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "bytes": _Field.TYPE_BYTES,
    "string": _Field.TYPE_STRING,
    "int64": _Field.TYPE_INT64,
    "uint64": _Field.TYPE_UINT64,
    "int32": _Field.TYPE_INT32,
    "bool": _Field.TYPE_BOOL,
}

_DECLARATIONS: Final = {
    "Header": "1 cluster_id uint64, 2 member_id uint64, 3 revision int64, 4 raft_term uint64",
    "KeyValue": (
        "1 key bytes, 2 create_revision int64, 3 mod_revision int64, 4 version int64, 5 value bytes, 6 lease int64"
    ),
    "RangeRequest": "1 key bytes, 2 range_end bytes, 3 limit int64, 4 revision int64",
    "RangeResponse": "1 header Header, 2 kvs KeyValue*, 3 more bool, 4 count int64",
    "PutRequest": "1 key bytes, 2 value bytes, 3 lease int64",
    "PutResponse": "1 header Header",
    "DeleteRangeRequest": "1 key bytes, 2 range_end bytes",
    "DeleteRangeResponse": "1 header Header, 2 deleted int64",
    # result: EQUAL is 0; target: VERSION 0, CREATE 1, MOD 2.
    "Compare": "1 result int32, 2 target int32, 3 key bytes, 5 create_revision int64, 6 mod_revision int64",
    "RequestOp": (
        "1 request_range RangeRequest, 2 request_put PutRequest, 3 request_delete_range DeleteRangeRequest"
    ),
    "TxnRequest": "1 compare Compare*, 2 success RequestOp*, 3 failure RequestOp*",
    "TxnResponse": "1 header Header, 2 succeeded bool",
    "LeaseGrantRequest": "1 TTL int64, 2 ID int64",
    "LeaseGrantResponse": "1 header Header, 2 ID int64, 3 TTL int64, 4 error string",
    "LeaseRevokeRequest": "1 ID int64",
    "LeaseRevokeResponse": "1 header Header",
    "LeaseKeepAliveRequest": "1 ID int64",
    "LeaseKeepAliveResponse": "1 header Header, 2 ID int64, 3 TTL int64",
    # type: PUT 0, DELETE 1.
    "Event": "1 type int32, 2 kv KeyValue",
    "WatchCreateRequest": "1 key bytes, 2 range_end bytes, 3 start_revision int64",
    "WatchProgressRequest": "",
    "WatchRequest": "1 create_request WatchCreateRequest, 3 progress_request WatchProgressRequest",
    "WatchResponse": (
        "1 header Header, 2 watch_id int64, 3 created bool, 4 canceled bool, 5 compact_revision int64, "
        "6 cancel_reason string, 11 events Event*"
    ),
    "AuthenticateRequest": "1 name string, 2 password string",
    "AuthenticateResponse": "1 header Header, 2 token string",
    "StatusRequest": "",
    # errors: also alarms, as text. dbSizeQuota: from 3.6 on.
    "StatusResponse": (
        "1 header Header, 2 version string, 3 dbSize int64, 4 leader uint64, 8 errors string*, 12 dbSizeQuota int64"
    ),
    "LeaseTimeToLiveRequest": "1 ID int64",
    "LeaseTimeToLiveResponse": "1 header Header, 2 ID int64, 3 TTL int64, 4 grantedTTL int64",
}
_CREATE, _MOD = 1, 2


def _build_messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="groupd_etcd.proto", package=_PACKAGE, syntax="proto3")
    for name, declared in _DECLARATIONS.items():
        message = file.message_type.add(name=name)
        is_choice = name == "RequestOp"
        if is_choice:
            message.oneof_decl.add(name="request")
        for entry in filter(None, declared.split(", ")):
            number, field_name, kind = entry.split(" ")
            label = _Field.LABEL_REPEATED if kind.endswith("*") else _Field.LABEL_OPTIONAL
            field = message.field.add(name=field_name, number=int(number), label=label)
            kind = kind.removesuffix("*")
            if kind in _SCALARS:
                field.type = _SCALARS[kind]
            else:
                field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            if is_choice:
                field.oneof_index = 0
    # `create_revision` of a comparison is in a oneof, so that a value of 0 is serialized as well.
    [compare] = [message for message in file.message_type if message.name == "Compare"]
    compare.oneof_decl.add(name="target_union")
    for field in compare.field:
        if field.number in (5, 6):
            field.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in _DECLARATIONS
    }


MESSAGES: Final = _build_messages()
"""Message classes by name."""


def compare_creation(key: bytes, revision: int) -> Any:
    """Return a comparison that holds if a key was created at a revision; 0: if it does not exist."""
    return MESSAGES["Compare"](target=_CREATE, key=key, create_revision=revision)


def compare_write(key: bytes, revision: int) -> Any:
    """Return a comparison that holds if the last write of a key was at a revision."""
    return MESSAGES["Compare"](target=_MOD, key=key, mod_revision=revision)


async def stream_changes(
    channel: grpc.aio.Channel, metadata: Any, begin: bytes, end: bytes, revision: int
) -> AsyncGenerator[KeyChanges, None]:
    """Yield the changes of a range from a revision on, in order.

    It ends with StoreUnavailable, RevisionsCompacted, StoreAccessDenied or AioRpcError. etcd also denies access
    after it has forgotten the token.
    """
    create = MESSAGES["WatchCreateRequest"](key=begin, range_end=end, start_revision=revision)
    call = channel.stream_stream(
        "/etcdserverpb.Watch/Watch",
        request_serializer=MESSAGES["WatchRequest"].SerializeToString,
        response_deserializer=MESSAGES["WatchResponse"].FromString,
    )(metadata=(*metadata, ("hasleader", "true")))
    try:
        await _write_request(call, MESSAGES["WatchRequest"](create_request=create))
        while True:
            answer = await _read_response(call)
            if answer is grpc.aio.EOF:
                raise StoreUnavailable("the watch ended")
            if answer.compact_revision:
                raise RevisionsCompacted(f"etcd compacted the revisions before {answer.compact_revision}")
            if answer.canceled:
                reason = answer.cancel_reason
                is_denied = "permission denied" in reason or "invalid auth token" in reason
                raise (StoreAccessDenied if is_denied else StoreUnavailable)(reason)
            for changes in _group_by_revision(answer.events):
                yield changes
    finally:
        call.cancel()


async def _write_request(call: Any, request: Any) -> None:
    try:
        async with asyncio.timeout(_UNRESPONSIVE_AFTER_S):
            await call.write(request)
    except (TimeoutError, asyncio.InvalidStateError) as error:
        raise StoreUnavailable("the watch does not read its input") from error


async def _read_response(call: Any) -> Any:
    """Return the next message. Raises StoreUnavailable if the node stays silent."""
    reading = asyncio.ensure_future(call.read())
    try:
        await asyncio.wait({reading}, timeout=_PROGRESS_AFTER_S)
        if not reading.done():
            progress = MESSAGES["WatchProgressRequest"]()
            await _write_request(call, MESSAGES["WatchRequest"](progress_request=progress))
            await asyncio.wait({reading}, timeout=_UNRESPONSIVE_AFTER_S)
        if not reading.done():
            raise StoreUnavailable("the watch is silent")
        return reading.result()
    finally:
        reading.cancel()


def create_entry(found: Any) -> KeyEntry:
    """Return a key of etcd as a `KeyEntry`."""
    return KeyEntry(found.key, found.value, found.create_revision, found.mod_revision, found.lease)


def _group_by_revision(events: Sequence[Any]) -> list[KeyChanges]:
    """Group events by revision, in order."""
    by_revision: dict[int, tuple[list[KeyEntry], list[bytes]]] = {}
    for event in events:
        written, deleted = by_revision.setdefault(event.kv.mod_revision, ([], []))
        if event.type:
            deleted.append(event.kv.key)
        else:
            written.append(create_entry(event.kv))
    return [KeyChanges(revision, tuple(w), tuple(d)) for revision, (w, d) in sorted(by_revision.items())]
