"""Host addresses and ranges, with the results of Kafka 4.4's `CidrUtils` for the same texts."""

import pytest

from coordinator.security.core.acl import find_range, format_java_address, why_invalid_range


@pytest.mark.parametrize(
    "text", ["010.1.1.1/8", "1.2.3.4/08", "[::1]/64", "fe80::1%eth0/64", "1::/+64", "::/0"]
)
def test_ranges(text: str) -> None:
    assert why_invalid_range(text) is None
    assert find_range(text) is not None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1.2.3.4/33", "Value [33] not in range [0,32]"),
        ("300.1.1.1/8", "Value [300] not in range [0,255]"),
        ("1.2.3.4/a", "Could not parse [1.2.3.4/a]"),
        ("1.2.3.4/008", "Could not parse [1.2.3.4/008]"),
        ("1.2.3/8", "Could not parse [1.2.3/8]"),
        ("/", "Could not parse [/]"),
        ("::1/129", "Could not parse [::1/129] - prefix length must be between 0 and 128"),
        ("1::/-1", "Could not parse [1::/-1] - prefix length must be between 0 and 128"),
        ("::1/", "Could not parse [::1/] - invalid prefix length"),
        ("::1//3", "Could not parse [::1//3] - invalid prefix length"),
        ("::ffff:1.2.3.4/64", "Could not parse [::ffff:1.2.3.4] - not an IPv6 address"),
        ("foo:bar/64", "Could not parse [foo:bar]"),
    ],
)
def test_what_is_no_range(text: str, why: str) -> None:
    assert why_invalid_range(text) == why
    assert find_range(text) is None


@pytest.mark.parametrize(
    ("address", "text", "is_in"),
    [
        ("10.1.2.3", "10.0.0.0/8", True),
        ("10.0.0.0", "10.0.0.1/31", True),
        ("10.255.255.255", "10.0.0.0/8", True),
        ("11.0.0.0", "10.0.0.0/8", False),
        ("10.0.0.2", "10.0.0.1/32", False),
        ("1.1.1.1", "0.0.0.0/0", True),
        ("0.0.0.0", "0.0.0.0/0", False),
        ("0:0:0:0:0:0:0:1", "::/0", True),
        ("0:0:0:0:0:0:0:1", "0.0.0.0/0", False),
        ("1.1.1.1", "::/0", False),
        ("fe80:0:0:0:0:0:0:1%eth0", "fe80::/10", True),
        ("", "0.0.0.0/0", False),
    ],
)
def test_what_is_in_a_range(address: str, text: str, is_in: bool) -> None:
    found = find_range(text)
    assert found is not None
    assert found.contains(address) is is_in


@pytest.mark.parametrize(
    ("client_host", "address"),
    [
        ("/127.0.0.1", "127.0.0.1"),
        ("/::1", "0:0:0:0:0:0:0:1"),
        ("fe80::1%1", "fe80:0:0:0:0:0:0:1%1"),
        ("", ""),
    ],
)
def test_addresses_are_written_as_java_does(client_host: str, address: str) -> None:
    assert format_java_address(client_host) == address
