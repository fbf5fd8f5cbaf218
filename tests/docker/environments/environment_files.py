"""The files that a public set-up mounts: stores with certificates, JAAS files, passwords and scripts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from tests.docker.containers.image import Mount
from tests.docker.environments.public_environments import MountedFile, PublicEnvironment
from tests.security.server.certificates import Identity, java_truststore

_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_MODULES: Final = {"PLAIN": _PLAIN, "SCRAM": _SCRAM, "GSSAPI": "com.sun.security.auth.module.Krb5LoginModule"}


@dataclass(frozen=True)
class EnvironmentFiles:
    """The mounts of a set-up's files, and the PEM files of its certificates for clients."""

    mounts: tuple[Mount, ...]
    authority: str
    client: str

    @classmethod
    def write(
        cls, environment: PublicEnvironment, hosts: Iterable[str], directory: Path
    ) -> "EnvironmentFiles":
        """Write the files below a directory. `hosts` are the names in the certificates."""
        authority = Identity.authority()
        subject = next((file.subject for file in environment.files if file.subject), "CN=broker")
        # keytool writes the country Unknown, which no country code is; cryptography refuses to write that.
        attributes = [each for each in subject.split(", ") if each != "C=Unknown"]
        server = authority.sign(",".join(attributes), tuple(hosts))
        directory.mkdir()
        mounts: list[Mount] = []
        for n, each in enumerate(environment.files):
            path = directory / f"{n}-{Path(each.path).name}"
            path.write_bytes(_content(each, authority, server))
            path.chmod(0o755 if each.kind == "script" else 0o644)
            mounts.append(Mount(str(path), each.path, is_read_only=False))
        (directory / "authority.pem").write_text(authority.certificate_pem)
        (directory / "client.pem").write_text(authority.sign("CN=client").pem)
        return cls(tuple(mounts), str(directory / "authority.pem"), str(directory / "client.pem"))


def _content(file: MountedFile, authority: Identity, server: Identity) -> bytes:
    password = file.password or ""
    match file.kind, file.format:
        case "keystore", "JKS":
            return server.jks(password)
        case "keystore", _:
            return server.pkcs12(password)
        case "truststore", "JKS":
            return java_truststore(authority, password=password)
        case "truststore", _:
            return _trust_store(authority, password)
        case "password", _:
            return f"{password}\n".encode()
        case "jaas", _:
            return "\n".join(_jaas_section(name, file) for name in file.sections).encode()
        case "script", _:
            return "\n".join(("#!/bin/bash", "set -e", *file.runs, "")).encode()
    return b'{"name": "record"}\n'


def _trust_store(authority: Identity, password: str) -> bytes:
    # Java trusts an entry with this attribute alone.
    entry = pkcs12.PKCS12Certificate(authority.certificate, b"authority")
    return pkcs12.serialize_java_truststore([entry], BestAvailableEncryption(password.encode()))


def _jaas_section(name: str, file: MountedFile) -> str:
    users: Mapping[str, str] = file.users or {}
    first = next(iter(users.items()), ("", ""))
    logins = {"username": first[0], "password": first[1]}
    modules = []
    for mechanism in file.mechanisms:
        options = dict(logins)
        if mechanism == "PLAIN":
            options |= {f"user_{user}": password for user, password in users.items()}
        if mechanism in _MODULES:
            text = " ".join(f'{option}="{value}"' for option, value in options.items())
            modules.append(f"{_MODULES[mechanism]} required {text};")
    return f"{name} {{ {' '.join(modules)} }};"
