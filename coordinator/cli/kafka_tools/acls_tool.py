"""`kafka-acls`: add, remove and list ACLs. Source: Kafka's `AclCommand`."""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from coordinator.cli.broker.broker_acls import BrokerAcls
from coordinator.cli.command_errors import BrokerError
from coordinator.cli.kafka_tools.tool_call import open_client, parse_options
from coordinator.cli.kafka_tools.tool_errors import KafkaError, ToolFailure, UsageError, error_from_code
from coordinator.cli.kafka_tools.tool_options import (
    AUTHORIZER,
    AUTHORIZER_PROPERTIES,
    BOOTSTRAP,
    COMMAND_CONFIG,
    OptionTable,
    ParsedOptions,
    flag,
    unsupported,
    value,
)
from coordinator.security.core.acl import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    sort_acls,
)

OPTIONS: Final = OptionTable(
    BOOTSTRAP,
    AUTHORIZER,
    AUTHORIZER_PROPERTIES,
    COMMAND_CONFIG,
    flag("add", "Add ACLs."),
    flag("remove", "Remove ACLs."),
    flag("list", "List ACLs."),
    value("topic", "TOPIC", "A topic; may be repeated, like all resources; '*' stands for all of a kind."),
    value("group", "GROUP", "A group."),
    value("transactional-id", "ID", "A transactional id."),
    value("delegation-token", "ID", "A delegation token."),
    value("user-principal", "PRINCIPAL", "A user as a resource: User:NAME."),
    flag("cluster", "The cluster."),
    value(
        "resource-pattern-type", "TYPE", "literal (the default), prefixed; to list or remove also any, match."
    ),
    value("operation", "OPERATION", "An operation: Read, Write, ...; the default is All; may be repeated."),
    value(
        "allow-principal", "PRINCIPAL", "A principal that is allowed: User:NAME, 'User:*'; may be repeated."
    ),
    value("deny-principal", "PRINCIPAL", "A principal that is denied."),
    value("allow-host", "HOST", "The hosts of allowed principals; the default is all."),
    value("deny-host", "HOST", "The hosts of denied principals; the default is all."),
    value("principal", "PRINCIPAL", "With --list: only ACLs of this principal."),
    flag("producer", "What a producer needs: Write, Describe, Create on topics."),
    flag("consumer", "What a consumer needs: Read, Describe on topics, Read on groups."),
    flag("idempotent", "With --producer: IdempotentWrite on the cluster."),
    flag("force", "Remove without a question."),
    unsupported("bootstrap-controller", "HOST:PORT"),
)
UNRECOGNIZED_PREFIX: Final = ""
_SUMMARY: Final = "This tool helps to manage acls on kafka."
_ACTIONS: Final = ("list", "add", "remove")
_RESOURCES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "delegation-token": ResourceType.DELEGATION_TOKEN,
    "user-principal": ResourceType.USER,
}
_PATTERNS: Final = {each.name: each for each in PatternType if each is not PatternType.UNKNOWN}
_OPERATIONS: Final = {each.name.replace("_", ""): each for each in AclOperation}


class _AclResource(NamedTuple):
    """A resource pattern of an ACL."""

    type: ResourceType
    name: str
    pattern: PatternType

    def __str__(self) -> str:
        return f"ResourcePattern(resourceType={self.type.name}, name={self.name}, patternType={self.pattern.name})"


_CLUSTER: Final = _AclResource(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)


class _AclEntry(NamedTuple):
    """An ACL without its resource."""

    principal: str
    host: str
    operation: AclOperation
    permission: AclPermissionType

    def __str__(self) -> str:
        return (
            f"(principal={self.principal}, host={self.host}, operation={self.operation.name}, "
            f"permissionType={self.permission.name})"
        )


AclsByResource = dict[_AclResource, list[_AclEntry]]


def run(arguments: Sequence[str]) -> int:
    """Run the tool and return the exit code."""
    options = parse_options(OPTIONS, arguments, _SUMMARY)
    _check_options(options)
    try:
        with open_client(options) as client:
            action = next(action for action in _ACTIONS if options.has(action))
            _RUN_ACTION[action](BrokerAcls(client), options)
    except BrokerError as refused:
        _fail(str(error_from_code(refused.error_code, refused.message)))
    except KafkaError as error:
        _fail(str(error))
    return 0


def _fail(message: str) -> None:
    raise ToolFailure(f"Error while executing ACL command: {message}", is_on_stdout=True)


def _check_options(options: ParsedOptions) -> None:
    if not options.has("bootstrap-server"):
        raise UsageError("One of --bootstrap-server or --bootstrap-controller must be specified")
    if options.count(_ACTIONS) != 1:
        raise UsageError("Command must include exactly one action: --list, --add, --remove. ")
    options.forbid(
        "list", "producer", "consumer", "allow-host", "allow-principal", "deny-host", "deny-principal"
    )
    options.forbid("producer", "operation", "deny-principal", "deny-host")
    options.forbid("consumer", "operation", "deny-principal", "deny-host")
    if options.has("principal") and not options.has("list"):
        raise UsageError("The --principal option is only available if --list is set")
    if options.has("producer") and not options.has("topic"):
        raise UsageError("With --producer you must specify a --topic")
    if options.has("idempotent") and not options.has("producer"):
        raise UsageError("The --idempotent option is only available if --producer is set")
    more = options.count(("cluster", "transactional-id")) and not options.has("producer")
    if options.has("consumer") and (options.count(("topic", "group")) < 2 or more):
        raise UsageError(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id "
            "option should be specified."
        )


def _add_acls(broker: BrokerAcls, options: ParsedOptions) -> None:
    pattern = _parse_pattern(options)
    if pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise UsageError(
            f"A '--resource-pattern-type' value of '{pattern.name}' is not valid when adding acls."
        )
    wanted = _make_acls(options)
    if not all(wanted.values()):
        raise UsageError(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
        )
    for resource, entries in wanted.items():
        bindings = {entry: _create_binding(resource, entry) for entry in entries}
        known = broker.find_acls(AclFilter(resource.type, resource.name, resource.pattern))
        for entry, binding in bindings.items():
            if binding in known:
                print(f"Acl (pattern={resource}, entry={entry}) already exists.")
        new = [entry for entry, binding in bindings.items() if binding not in known]
        if new:
            print(f"Adding ACLs for resource `{resource}`: \n {_format_entries(new)} \n")
            broker.create_acls([bindings[entry] for entry in new])


def _remove_acls(broker: BrokerAcls, options: ParsedOptions) -> None:
    for resource, entries in _make_acls(options).items():
        question = f"delete all ACLs for resource filter `{resource}`"
        if entries:
            question = f"remove ACLs: \n {_format_entries(entries)} \n from resource filter `{resource}`"
        if not options.has("force") and not _confirm(f"Are you sure you want to {question}? (y/n)"):
            continue
        about = AclFilter(resource.type, resource.name, resource.pattern)
        filters = [
            about._replace(
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission=entry.permission,
            )
            for entry in entries
        ]
        broker.delete_acls(filters or [about])


def _confirm(question: str) -> bool:
    print(question, flush=True)
    return sys.stdin is not None and sys.stdin.readline().strip().lower() == "y"


def _list_acls(broker: BrokerAcls, options: ParsedOptions) -> None:
    resources = _find_resources(options)
    filters = [AclFilter(each.type, each.name, each.pattern) for each in resources] or [
        AclFilter(ResourceType.ANY, None, PatternType.ANY)
    ]
    found = set[AclBinding]().union(*map(broker.find_acls, filters))
    principals = _parse_principals(options, "principal")
    if not principals:
        _print_acls(found)
    for principal in principals:
        print(f"ACLs for principal `{principal}`")
        _print_acls(acl for acl in found if acl.principal == principal)


def _print_acls(acls: Iterable[AclBinding]) -> None:
    by_resource: AclsByResource = {}
    for acl in sort_acls(acls):
        resource = _AclResource(acl.resource_type, acl.resource_name, acl.pattern_type)
        entry = _AclEntry(acl.principal, acl.host, acl.operation, acl.permission)
        by_resource.setdefault(resource, []).append(entry)
    for resource, entries in by_resource.items():
        print(f"Current ACLs for resource `{resource}`:\n{_format_entries(entries)}\n")


def _format_entries(entries: Iterable[_AclEntry]) -> str:
    return "\n".join(f"\t{entry}" for entry in entries)


def _create_binding(resource: _AclResource, entry: _AclEntry) -> AclBinding:
    return AclBinding(
        resource.type,
        resource.name,
        resource.pattern,
        entry.principal,
        entry.host,
        entry.operation,
        entry.permission,
    )


def _make_acls(options: ParsedOptions) -> AclsByResource:
    """Return the ACLs that the options name, by resource; empty without a principal. Raises UsageError."""
    resources = _find_resources(options)
    if not resources:
        raise UsageError(
            "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
            "--delegation-token <Delegation Token ID>"
        )
    found: AclsByResource = {}
    if options.has("producer"):
        on_ids = (AclOperation.DESCRIBE, AclOperation.WRITE)
        _extend_acls(found, options, resources, ResourceType.TOPIC, (AclOperation.CREATE, *on_ids))
        _extend_acls(found, options, resources, ResourceType.TRANSACTIONAL_ID, on_ids)
        if options.has("idempotent"):
            _extend_acls(found, options, [_CLUSTER], ResourceType.CLUSTER, (AclOperation.IDEMPOTENT_WRITE,))
    if options.has("consumer"):
        _extend_acls(
            found, options, resources, ResourceType.TOPIC, (AclOperation.DESCRIBE, AclOperation.READ)
        )
        _extend_acls(found, options, resources, ResourceType.GROUP, (AclOperation.READ,))
    if not options.count(("producer", "consumer")):
        operations = [_parse_operation(name) for name in options.all("operation")] or [AclOperation.ALL]
        for resource in resources:
            _extend_acls(found, options, [resource], resource.type, operations)
    for resource, entries in found.items():
        valid = (*SUPPORTED_OPERATIONS[resource.type], AclOperation.ALL)
        if not {entry.operation for entry in entries} <= set(valid):
            names = ", ".join(operation.name for operation in valid)
            raise UsageError(f"ResourceType {resource.type.name} only supports operations [{names}]")
    return found


def _extend_acls(
    found: AclsByResource,
    options: ParsedOptions,
    resources: Iterable[_AclResource],
    resource_type: ResourceType,
    operations: Sequence[AclOperation],
) -> None:
    """Extend the ACLs of each resource of a type by the ACLs for some operations."""
    made = _make_entries(options, operations)
    for resource in resources:
        if resource.type is resource_type:
            found[resource] = list(dict.fromkeys([*found.get(resource, ()), *made]))


def _make_entries(options: ParsedOptions, operations: Sequence[AclOperation]) -> list[_AclEntry]:
    entries: list[_AclEntry] = []
    for name, permission in (("allow", AclPermissionType.ALLOW), ("deny", AclPermissionType.DENY)):
        hosts = [host.strip() for host in options.all(f"{name}-host")] or [WILDCARD]
        entries += [
            _AclEntry(principal, host, operation, permission)
            for principal in _parse_principals(options, f"{name}-principal")
            for operation in operations
            for host in hosts
        ]
    return entries


def _find_resources(options: ParsedOptions) -> list[_AclResource]:
    pattern = _parse_pattern(options)
    found = [
        _AclResource(type_, name.strip(), pattern)
        for option, type_ in _RESOURCES.items()
        for name in options.all(option)
    ]
    if pattern is PatternType.LITERAL and options.count(("cluster", "idempotent")):
        found.append(_CLUSTER)
    return found


def _parse_pattern(options: ParsedOptions) -> PatternType:
    text = options.get("resource-pattern-type") or PatternType.LITERAL.name
    pattern = _PATTERNS.get(text.upper())
    if pattern is None:
        raise KafkaError(
            f"Cannot parse argument '{text}' of option resource-pattern-type",
            "OptionArgumentConversionException",
        )
    return pattern


def _parse_operation(name: str) -> AclOperation:
    return _OPERATIONS.get(name.strip().upper().replace("_", ""), AclOperation.UNKNOWN)


def _parse_principals(options: ParsedOptions, option: str) -> list[str]:
    principals = [text.strip() for text in options.all(option)]
    for principal in principals:
        if principal.find(":") < 1:
            raise KafkaError(
                f"expected a string in format principalType:principalName but got {principal}",
                "IllegalArgumentException",
            )
    return list(dict.fromkeys(principals))


_RUN_ACTION: Final[dict[str, Callable[[BrokerAcls, ParsedOptions], None]]] = {
    "list": _list_acls,
    "add": _add_acls,
    "remove": _remove_acls,
}
