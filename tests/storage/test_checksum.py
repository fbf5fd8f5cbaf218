import subprocess
import sys

import crc32c as package
from hypothesis import given
from hypothesis import strategies as st

from storage.checksum import crc32c


def test_the_vector_of_the_standard() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@given(st.binary(), st.binary())
def test_it_is_the_packages_own(data: bytes, more: bytes) -> None:
    assert crc32c(data) == package.crc32c(data)
    assert crc32c(more, crc32c(data)) == crc32c(data + more)
    assert crc32c(memoryview(data)) == crc32c(data)


def test_the_engine_does_not_load_what_it_does_not_need() -> None:
    code = "import sys, storage.log; print('importlib.metadata' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"
