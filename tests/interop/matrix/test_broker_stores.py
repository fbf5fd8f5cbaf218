"""The broker's own stores: PEM and PKCS12 are those of the matrix; JKS is refused, with the way out."""

from pathlib import Path

import pytest

from tests.cli.test_serve import FREE, groupd
from tests.interop.build import CannotBuild
from tests.interop.requirement import lacking
from tests.interop.secured_files import SecuredFiles
from tests.server.tls.certificates import PASSWORD

pytestmark = pytest.mark.interop


def test_a_store_of_keytool_in_jks_stops_the_start_and_is_told_how_to_convert(tmp_path: Path) -> None:
    try:
        (jks,) = [each for each in SecuredFiles(str(tmp_path)).java_stores() if each.form == "JKS"]
    except CannotBuild as reason:
        lacking(str(reason))
    properties = {
        "listener.security.protocol.map": "PLAINTEXT:SSL",
        "ssl.keystore.type": "JKS",
        "ssl.keystore.location": jks.key_store,
        "ssl.keystore.password": PASSWORD,
    }
    options = [word for name, value in properties.items() for word in ("-o", f"{name}={value}")]
    done = groupd("serve", *FREE, "--data-dir", str(tmp_path / "data"), *options)
    assert done.returncode != 0
    assert "keytool -importkeystore" in done.stderr
    assert "-deststoretype PKCS12" in done.stderr
    assert jks.key_store in done.stderr
    assert PASSWORD not in done.stderr
    assert "Traceback" not in done.stderr
