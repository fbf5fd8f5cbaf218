"""Joining a cluster: what does not answer, or does not fit, stops the start."""

from coordinator.cluster.keys import Keys
from coordinator.config.between_brokers import listener_between_brokers
from coordinator.config.errors import ConfigError
from coordinator.server.cluster.cluster import EtcdCluster
from coordinator.server.cluster.connect import connect
from coordinator.server.settings import ServerSettings
from coordinator.server.start_failed import StartFailed


async def join(settings: ServerSettings) -> "EtcdCluster":
    """The cluster that the properties name, as it is now. Raises StartFailed."""
    config, cluster_id = settings.config, settings.cluster_id
    why_not = refusal(settings)
    if why_not is not None:
        raise StartFailed(why_not)
    assert cluster_id is not None
    engine = connect(config, settings.files)
    cluster = EtcdCluster(settings, engine, Keys(cluster_id, config.cluster_etcd_prefix))
    try:
        await cluster.read()
    except BaseException:
        await engine.close()
        raise
    return cluster


def refusal(settings: ServerSettings) -> str | None:
    """Why these settings are not those of a cluster."""
    config = settings.config
    if settings.cluster_id is None:
        return (
            "cluster.etcd.endpoints: a cluster needs CLUSTER_ID in the environment, the same for all brokers"
        )
    if settings.brokers > 1:
        return "--brokers is for several brokers in one process; a cluster has one in each"
    missing = [each.name for each in settings.listeners if each.advertised is None]
    if missing:
        return f"advertised.listeners: in a cluster {missing[0]} has to say where others find this broker"
    try:
        listener_between_brokers(config, settings.properties, settings.listeners)
    except ConfigError as error:
        return str(error)
    return None
