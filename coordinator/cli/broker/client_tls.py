"""TLS as a client has it: the broker's certificate is checked, and one of its own is shown if there is one."""

import ssl
from typing import Final

from cryptography.hazmat.primitives.serialization import Encoding

from coordinator.cli.broker.client_properties import ClientSecurity
from coordinator.server.tls.context import load_key
from coordinator.server.tls.stores import read_key_store, read_truststore
from storage.files import OsFiles

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def client_context(security: ClientSecurity) -> ssl.SSLContext:
    """What a command shakes hands with. Without a truststore it trusts as the system does. Raises StoreError."""
    settings = security.tls
    assert settings is not None
    files = OsFiles()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = security.checks_host
    versions = [_VERSIONS[each] for each in sorted(settings.ssl_enabled_protocols)]
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    trusted = read_truststore(settings, files)
    if trusted:
        context.load_verify_locations(cadata=b"".join(each.public_bytes(Encoding.DER) for each in trusted))
        # As for Java, whatever is in a truststore is trusted, however far from a root it is.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    else:
        context.load_default_certs()
    if settings.ssl_keystore_location or settings.ssl_keystore_key:
        load_key(context, read_key_store(settings, files))
    return context
