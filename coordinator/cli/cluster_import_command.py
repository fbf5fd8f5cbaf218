"""`groupd cluster import`."""

import asyncio
import os
import sys

import click

from coordinator.cli.output_streams import warn
from coordinator.cli.settings_loader import load_settings
from coordinator.config.config_errors import ConfigError
from coordinator.config.properties import Config
from coordinator.config.settings import Settings

EPILOG = """Properties come from --config, the environment and -o, as for `groupd serve`; cluster.etcd.endpoints is
required. etcd must not have keys of the cluster yet, no process may use the directories, and no transaction may be
open in them. Run an interrupted import again. Afterwards each directory belongs to its node in the cluster.
Examples:

\b
groupd cluster import --data-dir data -o cluster.etcd.endpoints=etcd1:2379,etcd2:2379,etcd3:2379
groupd cluster import --data-dir copy1 --data-dir copy2 --data-dir copy3 --config server.properties

Exit codes: 0 done; 2 the import failed."""


@click.command(epilog=EPILOG)
@click.option(
    "--data-dir",
    "data_dirs",
    required=True,
    multiple=True,
    metavar="DIR",
    help="A data directory; repeat it for each node of one cluster.",
)
@click.option(
    "--node-id", type=click.IntRange(0, 2**31 - 1), metavar="ID", help="The expected node id of DIR."
)
@click.option(
    "--config", "config_file", metavar="FILE", help="A properties file in Java's form, as Kafka's own."
)
@click.option("-o", "options", multiple=True, metavar="NAME=VALUE", help="Set a property; may be repeated.")
def import_cluster(
    data_dirs: tuple[str, ...], node_id: int | None, config_file: str | None, options: tuple[str, ...]
) -> None:
    """Create a cluster from the data directory of a single daemon, or from the copies of a lost cluster."""
    from coordinator.cluster.daemon.import_source import ImportRefused
    from coordinator.core.message_text import StartFailed
    from storage.optional_dependencies import OptionalDependencyError
    from storage.storage_errors import StorageError, format_error_reason

    try:
        settings = load_settings(config_file, options)
        config = settings.parse()
        if not config.is_cluster:
            raise ConfigError(
                "cluster.etcd.endpoints is not set: set it with -o, --config or the environment"
            )
        if node_id is None and "node.id" in settings.origins and len(data_dirs) == 1:
            node_id = config.node_id
        lines = asyncio.run(
            _import_directories(settings, config, [os.path.abspath(each) for each in data_dirs], node_id)
        )
    except (ConfigError, ImportRefused, OptionalDependencyError, StartFailed) as error:
        warn(str(error))
        sys.exit(2)
    except (StorageError, OSError) as error:
        warn(f"{format_error_reason(error)}: import again")
        sys.exit(2)
    for line in lines:
        click.echo(line)


async def _import_directories(
    settings: Settings, config: Config, paths: list[str], node_id: int | None
) -> list[str]:
    from storage.optional_dependencies import require_extra

    with require_extra("cluster", "cluster.etcd.endpoints"):
        from coordinator.cluster.daemon.cluster_import import import_directories
        from coordinator.cluster.daemon.etcd_connection import create_etcd_store
    from storage.files import OsFiles

    files = OsFiles()
    engine = create_etcd_store(config, files)
    try:
        done = await import_directories(
            engine, files, paths, config, settings.texts, node_id, settings.cluster_id
        )
    finally:
        await engine.close()
    if done.was_done:
        lines = [f"Cluster {done.cluster_id} was already imported from there."]
    else:
        offsets = f"{done.size_bytes:,} bytes of __consumer_offsets"
        lines = [f"Created cluster {done.cluster_id}. Topics: {done.topics}; {offsets}."]
        lines += [f"Left out: {line}" for line in done.left_out]
    return [*lines, f"Start its brokers with CLUSTER_ID={done.cluster_id}"]
