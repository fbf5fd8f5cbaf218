"""`kafka-configs`: describe and alter configs of topics, brokers and groups, and SCRAM users. Source: Kafka's
`ConfigCommand`.
"""

import re
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from coordinator.cli.kafka_tools.client_settings import read_properties
from coordinator.cli.kafka_tools.cluster_client import ClusterClient, check_error
from coordinator.cli.kafka_tools.tool_call import java_map_order, open_client, parse_options
from coordinator.cli.kafka_tools.tool_errors import KafkaError, ToolFailure, UsageError, error_from_code
from coordinator.cli.kafka_tools.tool_options import (
    BOOTSTRAP,
    COMMAND_CONFIG,
    ZOOKEEPER,
    OptionTable,
    ParsedOptions,
    flag,
    unsupported,
    value,
)
from coordinator.cli.kafka_tools.zookeeper_option import NoBrokerInContainer, warn_of_zookeeper
from storage.storage_errors import StorageError, format_error_reason

if TYPE_CHECKING:
    from coordinator.cli.broker.user_commands import UserStore

OPTIONS: Final = OptionTable(
    BOOTSTRAP,
    ZOOKEEPER,
    COMMAND_CONFIG,
    flag("describe", "Print configs."),
    flag("alter", "Set or delete configs."),
    flag("all", "Describe defaults as well."),
    value("entity-type", "TYPE", "topics, brokers, groups, users (SCRAM); others have no configs here."),
    value("entity-name", "NAME", "The name of the topic, broker, group or user."),
    flag("entity-default", "The default of all brokers."),
    value("topic", "TOPIC", "Short for --entity-type topics --entity-name TOPIC."),
    value("broker", "ID", "The same for a broker."),
    flag("broker-defaults", "The same for the default of all brokers."),
    value("group", "GROUP", "The same for a group."),
    value("user", "USER", "The same for a user."),
    flag("user-defaults", "The same for the default of all users."),
    value("client", "ID", "The same for a client id."),
    flag("client-defaults", "The same for the default of all client ids."),
    value("client-metrics", "NAME", "The same for client metrics."),
    value("ip", "IP", "The same for an address."),
    flag("ip-defaults", "The same for the default of all addresses."),
    value("add-config", "NAME=VALUE,...", "Configs to set; [A,B] for a value with commas."),
    value("add-config-file", "FILE", "Configs to set, in a file."),
    value("delete-config", "NAME,...", "Configs to delete."),
    unsupported("bootstrap-controller", "HOST:PORT"),
    unsupported("broker-logger", "ID"),
)
UNRECOGNIZED_PREFIX: Final = ""
_SUMMARY: Final = (
    "This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip, "
    "client-metrics or group"
)
_SHORT: Final = {
    "topic": "topics",
    "client": "clients",
    "user": "users",
    "broker": "brokers",
    "ip": "ips",
    "group": "groups",
    "client-metrics": "client-metrics",
}
_SHORT_DEFAULTS: Final = {
    "client-defaults": "clients",
    "user-defaults": "users",
    "broker-defaults": "brokers",
    "ip-defaults": "ips",
}
_TYPES: Final = ("broker-loggers", "topics", "clients", "users", "brokers", "ips", "client-metrics", "groups")
_QUOTAS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)
_USERS: Final = ("users",)
_DEFAULT: Final = ""
"""The name of the entity for the defaults of its type."""
_SET: Final = 0
_DELETE: Final = 1
_SOURCES: Final = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
"""The sources of configs, by their numbers in DescribeConfigs."""
_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_MIN_ITERATIONS: Final = 4096
_SALT_BYTES: Final = 20
_BETWEEN_CONFIGS: Final = re.compile(r",(?=[^\]]*(?:\[|$))")
_CREDENTIAL: Final = re.compile(r"(?:iterations=([0-9]*),)?password=(.*)", re.DOTALL)
_PASSWORD: Final = re.compile(r"(?<=password=)[^\],]*")


class _ResourceKind(NamedTuple):
    """A type of entities that can have configs."""

    number: int
    """The number of the type in requests."""
    source: int
    """The source of configs that were set for a single entity."""
    name: str


_KINDS: Final = {
    "topics": _ResourceKind(2, 1, "topic"),
    "brokers": _ResourceKind(4, 2, "broker"),
    "client-metrics": _ResourceKind(16, 7, "client-metric"),
    "groups": _ResourceKind(32, 8, "group"),
}
_DEFAULT_BROKER_SOURCE: Final = 3


class _Entities(NamedTuple):
    """The entities of the options: types, and names in the order of the types."""

    types: tuple[str, ...]
    names: tuple[str, ...]


class _Changes(NamedTuple):
    """The changes of --alter."""

    added: dict[str, str]
    deleted: tuple[str, ...]


def run(arguments: Sequence[str]) -> int:
    """Run the tool and return the exit code."""
    try:
        options = parse_options(OPTIONS, arguments, _SUMMARY)
        entities = _check_options(options)
        try:
            with open_client(options) as client:
                if options.has("describe"):
                    _describe(client, entities, is_complete=options.has("all"))
                else:
                    _alter(client, entities, _find_changes(options))
        except NoBrokerInContainer as failure:
            _alter_before_start(failure, entities, options)
    except KafkaError as error:
        words = _PASSWORD.sub("[hidden]", " ".join(arguments))
        raise ToolFailure(
            f"Error while executing config command with args '{words}'\n"
            f"java.util.concurrent.ExecutionException: {error.qualified}"
        ) from error
    return 0


def _check_options(options: ParsedOptions) -> _Entities:
    """Return the resource that the options name. Raises UsageError."""
    if options.count(("describe", "alter")) != 1:
        raise UsageError("Command must include exactly one action: --describe, --alter")
    if not options.has("bootstrap-server"):
        raise UsageError("Either --bootstrap-server or --bootstrap-controller must be specified.")
    entities = _find_entities(options)
    for type_ in entities.types:
        if type_ not in _TYPES:
            raise UsageError(
                f"Invalid entity type {type_}, the entity type must be one of {', '.join(_TYPES)} with a "
                "--bootstrap-server or --bootstrap-controller argument"
            )
    if entities.types[0] == "broker-loggers":
        raise UsageError(
            "--entity-type broker-loggers is not supported by groupd's tool. "
            f"Use one of: {', '.join(_KINDS)}, users"
        )
    if "brokers" in entities.types and any(name and not name.isdecimal() for name in entities.names):
        raise UsageError(
            f"The entity name for brokers must be a valid integer broker id, but it is: {entities.names[0]}"
        )
    if options.has("alter"):
        _check_alter(options, entities)
    return entities


def _find_entities(options: ParsedOptions) -> _Entities:
    short = [name for name in (*_SHORT, *_SHORT_DEFAULTS) if options.has(name)]
    types = [*options.all("entity-type")]
    names = [*options.all("entity-name"), *([_DEFAULT] if options.has("entity-default") else [])]
    if short and (names or types) and not (types and not names):
        raise UsageError(
            "--entity-{type,name,default} should not be used in conjunction with specific entity flags"
        )
    for name in short:
        types.append(_SHORT.get(name) or _SHORT_DEFAULTS[name])
        names.append(options.text(name) if name in _SHORT else _DEFAULT)
    if not types:
        raise UsageError("At least one entity type must be specified")
    if len(set(types)) < len(types):
        twice = ", ".join(dict.fromkeys(each for each in types if types.count(each) > 1))
        raise UsageError(f"Duplicate entity type(s) specified: {twice}")
    return _Entities(tuple(types), tuple(names))


def _check_alter(options: ParsedOptions, entities: _Entities) -> None:
    (type_, *_) = entities.types
    if len(entities.names) != len(entities.types):
        if type_ in ("users", "clients", "brokers", "ips") and not entities.names:
            raise UsageError(
                "An entity-name or default entity must be specified with --alter of users, clients, brokers or ips"
            )
        if not entities.names:
            raise UsageError(f"An entity name must be specified with --alter of {type_}")
        raise UsageError("An entity name must be specified for every entity type")
    if options.has("add-config") and options.has("add-config-file"):
        raise UsageError("Only one of --add-config or --add-config-file must be specified")
    if not options.count(("add-config", "add-config-file", "delete-config")):
        raise UsageError(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )


def _find_changes(options: ParsedOptions) -> _Changes:
    added: dict[str, str] = dict(read_properties(options.get("add-config-file")))
    text = options.get("add-config")
    for pair in [] if text is None else _BETWEEN_CONFIGS.split(text):
        name, equals, config = pair.partition("=")
        if not equals:
            raise UsageError(
                'Invalid entity config: all configs to be added must be in the format "key=val" or  '
                '"key=[val1,val2]" to group values which contain commas.'
            )
        added[name.strip()] = config.replace("[", "").replace("]", "").strip()
    deleted = tuple(name.strip() for text in options.all("delete-config") for name in text.split(","))
    return _Changes(added, deleted)


def _alter(client: ClusterClient, entities: _Entities, changes: _Changes) -> None:
    (type_, *_), (name, *_) = entities
    if type_ in _KINDS:
        _alter_resource(client, _KINDS[type_], name, changes)
    elif entities.types == _USERS:
        from coordinator.cli.broker.broker_users import BrokerUsers

        _alter_user(BrokerUsers(client), name, changes)
    else:
        _check_quotas(type_, changes)
        raise KafkaError("The node does not support ALTER_CLIENT_QUOTAS", "UnsupportedVersionException")
    _print_completion(type_, name)


def _alter_before_start(failure: NoBrokerInContainer, entities: _Entities, options: ParsedOptions) -> None:
    """Write SCRAM credentials to the data directory of the groupd that will start in this container.

    Start scripts call the tool with --zookeeper before the broker starts. Raises the failure for other calls.
    """
    directory = failure.data_directory
    if directory is None or options.has("describe") or entities.types != _USERS:
        raise failure
    from coordinator.broker.security_file import open_security_file
    from coordinator.cli.broker.user_commands import DirectoryUsers
    from storage.files import OsFiles

    warn_of_zookeeper(
        failure.option,
        f"No groupd runs in this container. Writing the credentials to {directory}, where the groupd that starts "
        "here reads them.",
    )
    files = OsFiles()
    try:
        files.mkdir(directory, is_private=True)
        with open_security_file(files, directory) as file:
            _alter_user(DirectoryUsers(file), entities.names[0], _find_changes(options))
    except StorageError as error:
        raise ToolFailure(str(error)) from error
    except OSError as error:
        raise ToolFailure(f"{directory}: {format_error_reason(error, directory)}") from error
    _print_completion(*entities.types, *entities.names)


def _print_completion(type_: str, name: str) -> None:
    kind = type_.removesuffix("s")
    if name == _DEFAULT:
        print(f"Completed updating default config for {type_} in the cluster.")
    else:
        print(f"Completed updating config for {kind} {name}.")


def _alter_resource(client: ClusterClient, kind: _ResourceKind, name: str, changes: _Changes) -> None:
    from protocol.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    configs = [
        AlterableConfig(name=key, config_operation=_SET, value=text) for key, text in changes.added.items()
    ] + [AlterableConfig(name=key, config_operation=_DELETE, value="") for key in changes.deleted]
    resource = AlterConfigsResource(resource_type=kind.number, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    for result in _ask_about(client, kind, name, request).responses:
        check_error(result)


def _ask_about(client: ClusterClient, kind: _ResourceKind, name: str, request: Any) -> Any:
    """Send a request to a broker. A request about a broker's own configs goes to this broker, others to any
    broker."""
    if kind is _KINDS["brokers"] and name != _DEFAULT:
        client.fetch_metadata([])
        if int(name) in client.brokers:
            return client.retry_unreachable(lambda: client.send_to_broker(int(name), request))
    return client.send_request(request)


def _alter_user(users: "UserStore", name: str, changes: _Changes) -> None:
    """Set and delete SCRAM credentials, with one request for each: brokers refuse two credentials of a user in one
    request. Raises KafkaError, UsageError.
    """
    from coordinator.cli.command_errors import BrokerError
    from coordinator.security.core.sasl_mechanisms import ScramMechanism, salted_password

    has_quotas = _check_user_configs(changes)
    if has_quotas:
        raise KafkaError("The node does not support ALTER_CLIENT_QUOTAS", "UnsupportedVersionException")
    if name == _DEFAULT:
        raise UsageError(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using "
            "--bootstrap-server."
        )
    mechanisms = {each.mechanism_name: each for each in ScramMechanism}
    credentials = {key: _parse_credential(key, text) for key, text in changes.added.items()}
    try:
        for key in changes.deleted:
            users.remove_credential(name, mechanisms[key])
        for key, (password, iterations) in credentials.items():
            salt = secrets.token_bytes(_SALT_BYTES)
            salted = salted_password(mechanisms[key], password, salt, iterations)
            users.set_credential(name, mechanisms[key], salted, salt, iterations)
    except BrokerError as refused:
        raise error_from_code(refused.error_code, refused.message) from refused


def _check_user_configs(changes: _Changes) -> bool:
    """Return whether the changes are about quotas, not credentials. Raises UsageError for others, and for both."""
    for names, verb in ((changes.added, "added"), (changes.deleted, "deleted")):
        unknown = [name for name in names if name not in (*_MECHANISMS, *_QUOTAS)]
        if unknown:
            raise UsageError(
                f"Only quota and SCRAM credential configs can be {verb} for 'users' using --bootstrap-server. "
                f"Unexpected config names: {','.join(unknown)}"
            )
    named = {*changes.added, *changes.deleted}
    if named & set(_QUOTAS) and named & set(_MECHANISMS):
        raise UsageError(
            "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using "
            "--bootstrap-server."
        )
    return bool(named & set(_QUOTAS))


def _check_quotas(type_: str, changes: _Changes) -> None:
    valid, what = (
        (("connection_creation_rate",), "connection quota") if type_ == "ips" else (_QUOTAS, "quota")
    )
    for names, verb in ((changes.added, "added"), (changes.deleted, "deleted")):
        unknown = [name for name in names if name not in valid]
        if unknown:
            raise UsageError(
                f"Only {what} configs can be {verb} for '{type_}' using --bootstrap-server. "
                f"Unexpected config names: {','.join(unknown)}"
            )


def _parse_credential(mechanism: str, text: str) -> tuple[str, int]:
    """Return password and iterations. Raises UsageError."""
    found = _CREDENTIAL.fullmatch(text)
    if found is None:
        raise UsageError(f"Invalid credential property {mechanism.replace('-', '_')}={text}")
    iterations = int(found.group(1) or _MIN_ITERATIONS)
    if iterations < _MIN_ITERATIONS:
        raise UsageError(
            f"Iterations {iterations} is less than the minimum {_MIN_ITERATIONS} required for {mechanism}"
        )
    return found.group(2), iterations


def _describe(client: ClusterClient, entities: _Entities, *, is_complete: bool) -> None:
    (type_, *_) = entities.types
    if type_ in _KINDS:
        _describe_resources(client, type_, entities.names, is_complete=is_complete)
    elif entities.types == ("users",) and _DEFAULT not in entities.names:
        _describe_users(client, entities.names)


def _describe_resources(
    client: ClusterClient, type_: str, names: Sequence[str], *, is_complete: bool
) -> None:
    kind = _KINDS[type_]
    known = _list_resources(client, type_)
    if not names:
        names = java_map_order(known)
        names = [*names, _DEFAULT] if type_ == "brokers" else names
    for name in names:
        if name == _DEFAULT:
            print(f"Default configs for {type_} in the cluster are:")
        elif name not in known:
            print(f"The {kind.name} '{name}' doesn't exist and doesn't have dynamic config.")
            continue
        else:
            print(f"{'All' if is_complete else 'Dynamic'} configs for {kind.name} {name} are:")
        source = _DEFAULT_BROKER_SOURCE if name == _DEFAULT and type_ == "brokers" else kind.source
        for config in sorted(_fetch_configs(client, kind, name), key=lambda each: each.name):
            if is_complete or config.config_source == source:
                print(_format_config(config))


def _list_resources(client: ClusterClient, type_: str) -> list[str]:
    """Return the entities of a type that exist or have configs, in order."""
    if type_ == "topics":
        return sorted(topic.name for topic in client.fetch_topics(None))
    if type_ == "brokers":
        client.fetch_metadata([])
        return [str(node_id) for node_id in sorted(client.brokers)]
    from protocol.messages.list_config_resources import ListConfigResourcesRequest

    answer = client.send_request(ListConfigResourcesRequest(resource_types=[_KINDS[type_].number]))
    check_error(answer)
    found = {each.resource_name for each in answer.config_resources}
    if type_ == "groups":
        from coordinator.cli.kafka_tools.group_descriptions import list_groups

        found |= {each.group for each in list_groups(client)}
    return sorted(found)


def _fetch_configs(client: ClusterClient, kind: _ResourceKind, name: str) -> list[Any]:
    from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    resource = DescribeConfigsResource(resource_type=kind.number, resource_name=name)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    (result,) = _ask_about(client, kind, name, request).results
    check_error(result)
    return list(result.configs)


def _format_config(config: Any) -> str:
    synonyms = ", ".join(
        f"{_SOURCES.get(each.source, 'UNKNOWN')}:{each.name}={_text(each.value)}" for each in config.synonyms
    )
    is_sensitive = str(config.is_sensitive).lower()
    return f"  {config.name}={_text(config.value)} sensitive={is_sensitive} synonyms={{{synonyms}}}"


def _text(config: str | None) -> str:
    return "null" if config is None else config


def _describe_users(client: ClusterClient, names: Sequence[str]) -> None:
    from protocol.messages.describe_user_scram_credentials import (
        DescribeUserScramCredentialsRequest,
        UserName,
    )

    users = [UserName(name=name) for name in names] or None
    answer = client.send_request(DescribeUserScramCredentialsRequest(users=users))
    check_error(answer)
    mechanisms: Mapping[int, str] = dict(enumerate(_MECHANISMS, 1))
    for result in answer.results:
        infos = [
            f"{mechanisms.get(info.mechanism, 'UNKNOWN')}=iterations={info.iterations}"
            for info in result.credential_infos
        ]
        if infos:
            print(f"SCRAM credential configs for user-principal '{result.user}' are {', '.join(infos)}")
