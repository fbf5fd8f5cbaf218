"""Creates the connection to etcd from the properties."""

from coordinator.cluster.etcd.etcd_store import EtcdCredentials, EtcdStore
from coordinator.config.properties import Config
from coordinator.core.message_text import StartFailed
from storage.files import Files
from storage.storage_errors import format_error_reason


def create_etcd_store(config: Config, files: Files) -> EtcdStore:
    """Create a store, which connects with its first request. Raises StartFailed for an unreadable file."""
    return EtcdStore(
        config.cluster_etcd_endpoints, config.cluster_append_timeout_ms, _read_credentials(config, files)
    )


def _read_credentials(config: Config, files: Files) -> EtcdCredentials:
    def read(name: str, path: str) -> bytes | None:
        if not path:
            return None
        try:
            return files.read(path)
        except OSError as error:
            raise StartFailed(f"{name}: {path}: {format_error_reason(error, path)}") from error

    return EtcdCredentials(
        config.cluster_etcd_username,
        config.cluster_etcd_password,
        read("cluster.etcd.ca", config.cluster_etcd_ca),
        read("cluster.etcd.cert", config.cluster_etcd_cert),
        read("cluster.etcd.key", config.cluster_etcd_key),
    )
