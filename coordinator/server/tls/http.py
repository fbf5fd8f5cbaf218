"""What the HTTP port shakes hands with, from `http.tls.certificate` and `http.tls.key`."""

import ssl

from coordinator.server.start_failed import StartFailed
from coordinator.server.tls.context import load_key
from coordinator.server.tls.pem import read_certificates, read_key
from coordinator.server.tls.store_error import StoreError
from coordinator.server.tls.stores import KeyStore, fitting
from storage.files import Files
from storage.os_error import reason_of


def http_context(certificate: str, key: str, files: Files) -> ssl.SSLContext:
    """In: the paths of two files in PEM, which may be the same. Raises StartFailed."""
    name = f"http.tls.certificate: {certificate}"
    try:
        read = read_key(_read(files, "http.tls.key", key), "", f"http.tls.key: {key}")
        chain = read_certificates(_read(files, "http.tls.certificate", certificate), name)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.options |= ssl.OP_NO_RENEGOTIATION
        load_key(context, fitting(KeyStore(read, chain, name)))
    except StoreError as error:
        raise StartFailed(str(error)) from error
    return context


def _read(files: Files, name: str, path: str) -> bytes:
    try:
        return files.read(path)
    except OSError as error:
        raise StoreError(f"{name}: {path}: {reason_of(error, path)}") from None
