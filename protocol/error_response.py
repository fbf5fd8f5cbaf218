"""Error responses: the response of an API that reports one error for a whole request.

Kafka writes a `getErrorResponse` method for each of its requests. Here four rules derive it from the
declarations of the request and the response, for each version:

1. The error is set at the outermost level that has an error code in this version. Arrays below it are empty.
2. Above that level an array of the response has one entry for each element of an array of the request: of the array
   with the same name, otherwise of the first one.
3. An entry repeats the keys of its element: names, ids and numbers of partitions. It repeats them in versions that
   do not carry them as well, because callers look entries up by them.
4. Any other field has its default, otherwise null, otherwise the empty value of its type.

The tables `_EVERY_LEVEL` to `_REPEATED_FIELDS` declare the APIs for which Kafka differs. The function that
builds a response is generated Python. Like the codecs it is generated on first use and cached.

Source: `getErrorResponse` of Kafka's request classes.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache, partial
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import NODEFAULT

from protocol.apis import ALL_VERSIONS, APIS, ApiKey, VersionRange
from protocol.codegen import compile_function, keep_functions
from protocol.error_codes import ErrorCode
from protocol.python_source import PythonSource
from protocol.schema import ZERO_UUID, FieldKind, FieldLayout, FieldType, layout, message_info

Entry = TypeVar("Entry")
"""The class of an entry of a response."""
_ArraySources: TypeAlias = dict[str, tuple[FieldType, str]]
"""The type of the elements of an array and the expression that gives them."""
ErrorBuilder: TypeAlias = Callable[[Any, ErrorCode, str | None], Any]
"""Takes a request (or an element of one), the error and its message; returns the response (or the entry)."""


class ErrorLevel(Enum):
    """The levels at which an error response sets its error codes."""

    OUTERMOST = "outermost"
    EVERY = "every"
    INNERMOST = "innermost"


_ERROR_CODES: Final = frozenset({"error_code", "partition_error_code"})
_KEYS: Final = frozenset(
    {
        "group_id",
        "index",
        "key",
        "name",
        "partition",
        "partition_id",
        "partition_index",
        "producer_id",
        "resource_name",
        "resource_type",
        "topic",
        "topic_id",
        "transactional_id",
        "user",
    }
)
"""The fields by which clients recognize an entry."""
_KEY_ALIASES: Final = {"partition_index": "partition"}
"""The names of keys in requests, if they differ from those in responses."""

_EVERY_LEVEL: Final[Mapping[ApiKey, VersionRange]] = {
    # Clients up to v12 look for the error in each partition.
    ApiKey.FETCH: VersionRange.parse("0-12"),
    ApiKey.METADATA: ALL_VERSIONS,
    ApiKey.ELECT_LEADERS: ALL_VERSIONS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ALL_VERSIONS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ALL_VERSIONS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ALL_VERSIONS,
}
"""The APIs and versions in which Kafka sets the error at every level."""
_ENTRY_KEYS: Final[Mapping[ApiKey, Callable[[Any], Iterable[str]]]] = {
    # Responses below v3 have no field for the error.
    ApiKey.DESCRIBE_LOG_DIRS: lambda _: (),
    # Java sorts strings by their UTF-16 code units.
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: lambda request: sorted(
        {each.name for each in (*request.deletions, *request.upsertions)},
        key=lambda name: name.encode("utf-16-be", "surrogatepass"),
    ),
}
"""The keys of the entries of a response, if they differ from those of one array of the request."""
_NAMED_ERRORS: Final = frozenset({ApiKey.DESCRIBE_CONFIGS, ApiKey.FIND_COORDINATOR})
"""The APIs with Kafka's message for the error in their responses, unless the caller passes another one."""
_EMPTY_NAMES: Final = frozenset({ApiKey.METADATA})
"""The APIs whose responses replace a null name by an empty one."""
_REPEATED_FIELDS: Final = {ApiKey.FETCH: frozenset({"session_id"})}
"""The fields of a request that its response repeats at the top."""

_EMPTY_VALUES: Final[Mapping[str, object]] = {
    "bool": False,
    "float64": 0.0,
    "uuid": ZERO_UUID,
    "string": "",
    "bytes": b"",
    "records": b"",
    "array": [],
}
_STRUCT: Final = FieldKind("struct")
_STRING: Final = FieldType(FieldKind("string"))
_SCALARS: Final[Mapping[type[Any], FieldType]] = {str: _STRING, int: FieldType(FieldKind("int32"))}
"""The types of elements that are a key themselves: names, and partition numbers."""


def build_error_response(
    request: Any,
    version: int,
    error: ErrorCode,
    message: str | None = None,
    *,
    level: ErrorLevel | None = None,
) -> Any:
    """Build the response that reports an error for a whole request.

    Args:
        request: a declared request.
        version: its API version.
        error: the error code to set.
        message: a sentence for people, set beside each error code that has a place for it.
        level: which error codes are set; None: the same as in Kafka.
    """
    return _create_response_builder(type(request), version, level)(request, error, message)


def build_bare_error_response(
    request_class: type[Any], version: int, error: ErrorCode, message: str | None = None
) -> Any:
    """Build the response that reports an error for a request that was not decoded. It repeats no field of the
    request."""
    return _create_bare_builder(request_class, version)(error, message)


def build_error_entry(
    entry_class: type[Entry], element: object, version: int, error: ErrorCode, message: str | None = None
) -> Entry:
    """Build the entry of a response that reports an error for one element of a request.

    Args:
        entry_class: the class of the entry.
        element: the element: a declared struct, the number of a partition, or a name.
        version: the API version of the request.
        error: the error code to set.
        message: a sentence for people, set beside each error code that has a place for it.
    """
    entry: Entry = _create_entry_builder(entry_class, type(element), version)(element, error, message)
    return entry


@cache
def find_entry_array(response_class: type[Any], version: int) -> tuple[str, type[Any]]:
    """Return the array of a response that has an entry for each element of its request: its name, and the class of
    an entry.

    Args:
        response_class: a response with one such array in each version.
        version: its API version.
    """
    for field in layout(response_class, version):
        entry_class = _entry_class(field)
        if entry_class is not None and field.tag is None:
            return field.name, entry_class
    raise AssertionError(f"{response_class.__name__} v{version} has no entries")


@cache
def _list_values() -> Mapping[type[Any], Mapping[str, object]]:
    """Return the values that Kafka gives to fields without a fitting default, by class.

    The messages are imported here, because a broker loads most of them only when it needs them.
    """
    from protocol.messages.create_topics import CreatableTopicResult
    from protocol.messages.delete_records import DeleteRecordsPartitionResult
    from protocol.messages.fetch import PartitionData
    from protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
    from protocol.messages.init_producer_id import InitProducerIdResponse
    from protocol.messages.offset_fetch import OffsetFetchResponsePartition, OffsetFetchResponsePartitions
    from protocol.messages.produce import PartitionProduceResponse

    no_node = {"node_id": -1, "port": -1}
    no_offset = {"committed_offset": -1, "metadata": ""}
    return {
        PartitionProduceResponse: {"base_offset": -1},
        PartitionData: {"high_watermark": -1, "aborted_transactions": [], "records": b""},
        OffsetFetchResponsePartition: no_offset,
        OffsetFetchResponsePartitions: no_offset,
        FindCoordinatorResponse: no_node,
        Coordinator: no_node,
        CreatableTopicResult: {"configs": []},
        DeleteRecordsPartitionResult: {"low_watermark": -1},
        InitProducerIdResponse: {"producer_epoch": -1},
    }


@keep_functions
def _create_response_builder(
    request_class: type[Any], version: int, level: ErrorLevel | None
) -> ErrorBuilder:
    key = ApiKey(message_info(request_class).api_key)
    if level is None:
        is_everywhere = key in _EVERY_LEVEL and version in _EVERY_LEVEL[key]
        level = ErrorLevel.EVERY if is_everywhere else ErrorLevel.OUTERMOST
    writer = _BuilderSource(version, level)
    if key in _NAMED_ERRORS:
        writer.message = "error.message if message is None else message"
    writer.empties_names = key in _EMPTY_NAMES
    response = writer.build_response(key, request_class)
    return writer.compile(response, f"error response {APIS[key].name} v{version}")


@keep_functions
def _create_bare_builder(request_class: type[Any], version: int) -> Callable[[ErrorCode, str | None], Any]:
    fields = [field for field in layout(request_class, version) if field.default is NODEFAULT]
    request = request_class(**{field.name: _find_empty_value(field) for field in fields})
    return partial(_create_response_builder(request_class, version, None), request)


@keep_functions
def _create_entry_builder(entry_class: type[Any], element_class: type[Any], version: int) -> ErrorBuilder:
    element = _SCALARS.get(element_class, FieldType(_STRUCT, struct_class=element_class))
    writer = _BuilderSource(version, ErrorLevel.OUTERMOST)
    entry = writer.build_entry(entry_class, element, "request")
    return writer.compile(entry, f"error entry {entry_class.__name__} v{version}")


class _BuilderSource:
    """Writes the source of one builder. Its methods return expressions of the generated function."""

    def __init__(self, version: int, level: ErrorLevel) -> None:
        self.message = "message"
        """The expression for the message beside an error."""
        self.empties_names = False
        """Whether a null name is repeated as the empty string."""
        self._version = version
        self._level = level
        self._source = PythonSource()

    def compile(self, expression: str, origin: str) -> ErrorBuilder:
        """Return the function that evaluates `expression`; `origin` names it in tracebacks."""
        with self._source.block("def build(request, error, message):"):
            self._source.line(f"return {expression}")
        return compile_function(self._source, "build", origin)

    def build_response(self, key: ApiKey, request_class: type[Any]) -> str:
        """Return the expression of the response to a request."""
        response_class = APIS[key].response
        fields = layout(response_class, self._version)
        request = FieldType(_STRUCT, struct_class=request_class)
        arrays = self._pair_arrays(fields, request, "request")
        if key in _ENTRY_KEYS:
            keys = self._source.constant("list_keys", _ENTRY_KEYS[key])
            (name,) = (field.name for field in fields if _entry_class(field) is not None)
            arrays = {name: (_STRING, f"{keys}(request)")}
        repeated = {name: f"request.{name}" for name in _REPEATED_FIELDS.get(key, ())}
        return self._build_struct(response_class, fields, arrays, repeated)

    def build_entry(self, entry_class: type[Any], element: FieldType, variable: str) -> str:
        """Return the expression of an entry for the element in `variable`."""
        fields = layout(entry_class, self._version)
        arrays = self._pair_arrays(fields, element, variable)
        keys = _repeat_keys(entry_class, fields, element, variable)
        if self.empties_names:
            keys["name"] += ' or ""'
        return self._build_struct(entry_class, fields, arrays, keys)

    def _pair_arrays(self, fields: Iterable[FieldLayout], element: FieldType, variable: str) -> _ArraySources:
        """Return the elements of the request that the arrays of a response have entries for, by name of the
        array."""
        if element.struct_class is None:
            return {}
        sources = {
            field.name: field
            for field in layout(element.struct_class, self._version)
            if field.type.element is not None
        }
        targets = [field.name for field in fields if field.tag is None and _entry_class(field) is not None]
        pairs = {target: sources.pop(target) for target in targets if target in sources}
        unpaired = [target for target in targets if target not in pairs]
        pairs.update(zip(unpaired[:1], sources.values(), strict=False))
        arrays: _ArraySources = {}
        for target, source in pairs.items():
            assert source.type.element is not None
            may_be_null = source.type.nullable or source.default is None
            elements = f"{variable}.{source.name}{' or ()' if may_be_null else ''}"
            arrays[target] = source.type.element, elements
        return arrays

    def _build_struct(
        self,
        cls: type[Any],
        fields: Iterable[FieldLayout],
        arrays: _ArraySources,
        repeated: Mapping[str, str],
    ) -> str:
        has_code = any(field.name in _ERROR_CODES for field in fields)
        sets_code = has_code and (self._level is not ErrorLevel.INNERMOST or not arrays)
        descends = not sets_code or self._level is ErrorLevel.EVERY
        values = _list_values().get(cls, {})
        arguments = dict(repeated)
        for field in fields:
            if field.name in _ERROR_CODES and sets_code:
                arguments[field.name] = "error"
            elif field.name == "error_message" and sets_code:
                arguments[field.name] = self.message
            elif field.name in arrays and descends:
                arguments[field.name] = self._build_array(field, *arrays[field.name])
            elif field.name in values:
                arguments[field.name] = repr(values[field.name])
            elif field.name not in arguments and not _has_fitting_default(field):
                arguments[field.name] = repr(_find_empty_value(field))
        name = self._source.constant(cls.__name__, cls)
        return f"{name}({', '.join(f'{field}={value}' for field, value in arguments.items())})"

    def _build_array(self, target: FieldLayout, element: FieldType, elements: str) -> str:
        entry_class = _entry_class(target)
        assert entry_class is not None, target
        variable = self._source.variable(target.name)
        return f"[{self.build_entry(entry_class, element, variable)} for {variable} in {elements}]"


def _entry_class(field: FieldLayout) -> type[Any] | None:
    return None if field.type.element is None else field.type.element.struct_class


def _repeat_keys(
    entry_class: type[Any], fields: Iterable[FieldLayout], element: FieldType, variable: str
) -> dict[str, str]:
    """Return the expressions of the keys that an entry repeats from its element."""
    if element.struct_class is None:
        keys = [
            field for field in fields if field.name in _KEYS and field.type.kind.name == element.kind.name
        ]
        assert len(keys) <= 1, entry_class
        return {key.name: variable for key in keys}
    known = element.struct_class.__struct_fields__
    names = {
        name: name if name in known else _KEY_ALIASES.get(name)
        for name in entry_class.__struct_fields__
        if name in _KEYS
    }
    return {name: f"{variable}.{field}" for name, field in names.items() if field in known}


def _has_fitting_default(field: FieldLayout) -> bool:
    """Return whether a field may keep its default. A null default may be that of other versions."""
    return field.default is not NODEFAULT and (
        field.default is not None or field.type.nullable or field.tag is not None
    )


def _find_empty_value(field: FieldLayout) -> object:
    return None if field.type.nullable else _EMPTY_VALUES.get(field.type.kind.name, 0)
