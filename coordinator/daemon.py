"""The life of the process: started, ready, stopped by a signal."""

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from coordinator.broker.composition_root import open_server
from coordinator.broker.server import Server
from coordinator.broker.server_settings import ServerSettings
from coordinator.broker.server_view import ServerView
from coordinator.broker.services import ClusterMembership
from coordinator.config.config_errors import ConfigError, StartNotice
from coordinator.config.listeners import HTTP_OFF, Address, parse_http_listener
from coordinator.control.lazy_control import LazyControlPlane
from coordinator.core.message_text import StartFailed, printable
from coordinator.http.http_access import ControlAccess, HttpLimits, create_control_access
from coordinator.http.http_server import HttpServer
from coordinator.network.listening_socket import HTTP_OPTION, bind_sockets
from storage.storage_errors import StorageError, format_error_reason

if TYPE_CHECKING:
    import ssl

_LOG = logging.getLogger("KafkaServer")

T = TypeVar("T")

EXIT_SUCCESS: Final = 0
EXIT_FAILURE: Final = 1
EXIT_START_FAILED: Final = 2
_HTTP_BACKLOG: Final = 128
_MAX_REASON: Final = 2000
_GC_THRESHOLDS: Final = (700, 10, 200)
"""Python's thresholds, except that a full collection runs after 1.4 million further objects instead of 70,000.
It visits all live objects: with a request of 100,000 partitions it would stop the event loop for a tenth of a
second or more, repeatedly. Reference counting frees nearly everything without it."""
_KAFKA_READY: Final = """\
[BrokerLifecycleManager id={node}] The broker has been unfenced. Transitioning from RECOVERY to RUNNING. \
(kafka.server.BrokerLifecycleManager)
[KafkaServer id={node}] started (kafka.server.KafkaServer)
[KafkaRaftServer nodeId={node}] Kafka Server started (kafka.server.KafkaRaftServer)
"""
"""The last lines of a start in Kafka's log: with KRaft, with ZooKeeper, with KRaft. Programs that start an image of
Kafka wait for one of these lines."""
_MAX_OPEN_FILES: Final = 1_048_576
"""The maximum soft limit of open files. Each partition and each connection takes one."""


def run_daemon(settings: ServerSettings, notices: Iterable[StartNotice]) -> int:
    """Run a server until a signal ends it. Return the exit code. The log begins with `notices`."""
    for notice in notices:
        _LOG.log(logging.WARNING if notice.is_warning else logging.INFO, "%s", notice.text)
    _raise_file_limit()
    return _run(_serve(settings))


def _run(main: Coroutine[Any, Any, int]) -> int:
    try:
        import uvloop
    except ImportError:
        _LOG.warning("uvloop is not installed: using the slower event loop of asyncio")
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def _raise_file_limit() -> None:
    """Thousands of connections need as many descriptors; the soft limit is often 1,024."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _serve(settings: ServerSettings) -> int:
    stop = asyncio.Event()
    failures: list[BaseException] = []
    _watch_signals(stop)
    asyncio.get_running_loop().set_exception_handler(_log_unexpected)
    try:
        http_listener = parse_http_listener(settings.config)
        server = open_server(settings, membership=await _join_cluster(settings, stop))
    except (StartFailed, ConfigError) as error:
        _print_error(error)
        return EXIT_START_FAILED
    except _StoppedBySignal:
        _LOG.info("Stopped before the start completed")
        return EXIT_SUCCESS
    control = LazyControlPlane(server)
    try:
        http_sockets = (
            [] if http_listener is None else bind_sockets(http_listener, _HTTP_BACKLOG, HTTP_OPTION)
        )
        try:
            http_host = "" if http_listener is None else http_listener.host
            access = create_control_access(settings.config, http_host, http_sockets, settings.files)
            http_tls = _create_http_tls(settings)
            await server.listen()
        except (StartFailed, ConfigError):
            _close_sockets(http_sockets)
            raise
    except (StartFailed, ConfigError) as error:
        _print_error(error)
        server.abandon()
        return EXIT_START_FAILED
    broker = ServerView(server)
    http = HttpServer(broker, control, http_sockets, access, settings.config.view(HttpLimits), http_tls)
    http.start()
    http_address = http_listener and http_listener.with_bound_port(http_sockets[0].getsockname()[1])
    _log_addresses(broker, http_address, "https" if http_tls else "http")
    if http_listener is not None and access.has_authorizer:
        _describe_control(access)
    _reload_on_hangup(server)
    ready = asyncio.ensure_future(_announce_ready(server, broker, http, http_address))
    await stop.wait()
    _LOG.info("Shutting down")
    ready.cancel()
    http.close()
    control.close()
    try:
        await control.close_namespaces()
        await server.close()
        await control.finish()
    except (OSError, StorageError) as error:
        failures.append(error)
        _LOG.error("The shutdown was not clean: %s", format_error_reason(error))
    except Exception as problem:  # noqa: BLE001 - the exit code tells that not everything was written
        failures.append(problem)
        _LOG.error("The shutdown was not clean", exc_info=problem)
    _LOG.info("Shut down completed")
    return EXIT_FAILURE if failures else EXIT_SUCCESS


class _StoppedBySignal(Exception):
    """A signal came."""


async def _join_cluster(settings: ServerSettings, stop: asyncio.Event) -> ClusterMembership | None:
    """The cluster that the settings name. Raises StartFailed; _StoppedBySignal when a signal comes before
    etcd answers."""
    if not settings.config.is_cluster:
        return None
    from storage.optional_dependencies import OptionalDependencyError, require_extra

    try:
        with require_extra("cluster", "cluster.etcd.endpoints"):
            from coordinator.cluster.daemon.etcd_cluster import join_cluster
    except OptionalDependencyError as error:
        raise StartFailed(str(error)) from error
    return await _run_unless_stopped(stop, join_cluster(settings))


async def _run_unless_stopped(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T:
    """What comes of it. Raises _StoppedBySignal where that comes first, and the work is given up."""
    working, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            working.cancel()
            await asyncio.wait((working,))
            raise _StoppedBySignal
        return await working
    finally:
        stopped.cancel()


def _log_addresses(broker: ServerView, http: Address | None, scheme: str) -> None:
    """Log the version, the data directory and the addresses."""
    here = broker.create_overview()
    listeners = (
        f"{listener.bound} ({listener.name}, advertised as {listener.advertised_text})"
        for listener in here.listeners
    )
    _LOG.info("groupd %s, data directory %s", here.version, here.data_dir)
    _LOG.info("Clients connect to %s", ", ".join(listeners))
    if http is None:
        _LOG.info("HTTP is off")
    elif http.is_wildcard:
        _LOG.info("HTTP is at %s://localhost:%d/, on every interface", scheme, http.port)
    else:
        _LOG.info("HTTP is at %s://%s/", scheme, http)


def _describe_control(access: ControlAccess) -> None:
    """Log the access to the control API if an authorizer is configured."""
    if not access.guards_reading:
        _LOG.warning(
            "control.enable=%s: the control API shows every group and topic to clients of the HTTP port, whatever "
            "the ACLs of authorizer.class.name say",
            access.enable,
        )
    elif access.token is None:
        _LOG.info(
            "The control API is off, because authorizer.class.name is set: set control.token or control.enable to "
            "use it"
        )
    else:
        _LOG.info(
            "The control API needs control.token for reading, too, because authorizer.class.name is set"
        )


async def _announce_ready(
    server: Server, broker: ServerView, http_server: HttpServer, http: Address | None
) -> None:
    await server.ready.wait()
    # What was loaded stays: the garbage collector, which the start had switched off, need not look at it.
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.enable()
    here = broker.create_overview()
    _LOG.info("Ready. Topics: %d, groups: %d", here.topics, here.groups)
    kafka = here.listeners[0].bound
    sys.stdout.write(f"groupd ready kafka={kafka} http={http or HTTP_OFF} data={here.data_dir}\n")
    if server.settings.in_image:
        sys.stdout.write(_KAFKA_READY.format(node=server.settings.config.node_id))
    sys.stdout.flush()
    http_server.warm_up()


def _watch_signals(stop: asyncio.Event) -> None:
    """The first signal stops the daemon in order, a second one at once."""
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if stop.is_set():
            os._exit(EXIT_FAILURE)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)


def _create_http_tls(settings: ServerSettings) -> "ssl.SSLContext | None":
    """What the HTTP port shakes hands with; None where it is plain. Raises StartFailed."""
    config = settings.config
    if not config.http_tls_certificate:
        return None
    from coordinator.security.server.tls_context import create_http_context  # and what reads certificates

    return create_http_context(config.http_tls_certificate, config.http_tls_key, settings.files)


def _reload_on_hangup(server: Server) -> None:
    """SIGHUP has the certificates of listeners read again, as far as there are any."""
    if any(listener.protocol.has_tls for listener in server.settings.listeners):
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, server.brokers.reload_listeners)


def _log_unexpected(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    _LOG.error("Unexpected: %s", context.get("message"), exc_info=context.get("exception"))


def _close_sockets(sockets: Iterable[socket.socket]) -> None:
    for bound in sockets:
        bound.close()


def _print_error(error: Exception) -> None:
    sys.stderr.write(f"groupd: {printable(str(error), _MAX_REASON)}\n")
    sys.stderr.flush()
