"""The messages of etcd's API that are used here, declared field by field, as its published definitions number them.

A message is written down as its name and `NUMBER NAME TYPE`; TYPE is a scalar, or another message; `*` repeats it.
The API is that of etcd 3.4 and later (`etcdserverpb`, `mvccpb`): unknown fields of newer ones are passed over.
"""

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

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

_DECLARED: Final = {
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


def _built() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="groupd_etcd.proto", package=_PACKAGE, syntax="proto3")
    for name, declared in _DECLARED.items():
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
    # `create_revision` of a comparison has to be there also where it is 0: it is a choice of one.
    [compare] = [message for message in file.message_type if message.name == "Compare"]
    compare.oneof_decl.add(name="target_union")
    for field in compare.field:
        if field.number in (5, 6):
            field.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in _DECLARED
    }


MESSAGES: Final = _built()
"""The classes, by name."""


def created_at(key: bytes, revision: int) -> Any:
    """The comparison that a key came into being at a revision; 0: that it does not exist."""
    return MESSAGES["Compare"](target=_CREATE, key=key, create_revision=revision)


def written_at(key: bytes, revision: int) -> Any:
    """The comparison that a key was last written at a revision."""
    return MESSAGES["Compare"](target=_MOD, key=key, mod_revision=revision)
