"""The connection to etcd that the properties describe."""

from coordinator.cluster.etcd.engine import Credentials, EtcdEngine
from coordinator.config.properties import Config
from coordinator.server.start_failed import StartFailed
from storage.files import Files
from storage.os_error import reason_of


def connect(config: Config, files: Files) -> EtcdEngine:
    """Nobody is asked yet. Raises StartFailed for a file that cannot be read."""
    return EtcdEngine(
        config.cluster_etcd_endpoints, config.cluster_append_timeout_ms, _credentials(config, files)
    )


def _credentials(config: Config, files: Files) -> Credentials:
    def read(name: str, path: str) -> bytes | None:
        if not path:
            return None
        try:
            return files.read(path)
        except OSError as error:
            raise StartFailed(f"{name}: {path}: {reason_of(error, path)}") from error

    return Credentials(
        config.cluster_etcd_username,
        config.cluster_etcd_password,
        read("cluster.etcd.ca", config.cluster_etcd_ca),
        read("cluster.etcd.cert", config.cluster_etcd_cert),
        read("cluster.etcd.key", config.cluster_etcd_key),
    )
