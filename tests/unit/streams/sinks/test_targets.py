"""The addresses that a webhook may call."""

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldb.model.errors import ValidationError
from foldb.streams.sinks.http.targets import Target, may_be_called, networks_of, target_of

PUBLIC = ["93.184.216.34", "1.1.1.1", "2606:4700:4700::1111", "::ffff:93.184.216.34", "64:ff9b::5db8:d822"]

NOT_PUBLIC = [
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "100.100.100.200",
    "169.254.169.254",
    "168.63.129.16",
    "192.0.0.192",
    "192.0.2.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:10.0.0.1",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2001::1",
    "2001:db8::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%1",
    "fec0::1",
    "ff02::1",
]

REFUSED = [
    "ftp://example.com/",
    "file:///etc/passwd",
    "//example.com/",
    "example.com",
    "http://",
    "http:///path",
    "http://user@example.com/",
    "http://user:secret@example.com/",
    "http://example.com@127.0.0.1/",
    "http://example.com/#part",
    "http://example.com:0/",
    "http://example.com:65536/",
    "http://example.com:port/",
    "http://2130706433/",
    "http://017700000001/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://0177.0.0.1/",
    "http://127.1/",
    "http://127.0.0.1./x",
    "http://127.0.0.256/",
    "http://1.2.3.4.5/",
    "http://[fe80::1%25eth0]/",
    "http://[127.0.0.1]/",
    "http://[::1",
    "http://exa mple.com/",
    "http://example.com/a b",
    "http://example.com/\r\nx: y",
    "http://exämple.com/",
    "http://example.com\\@127.0.0.1/",
    "http://-example.com/",
    "http://example..com/",
    "http://" + "a" * 254 + "/",
    "http://example.com/" + "a" * 2048,
]


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_may_be_called(address: str) -> None:
    assert may_be_called(ip_address(address), ())


@pytest.mark.guarantee("SEC27")
@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_another_address_may_not_be_called(address: str) -> None:
    assert not may_be_called(ip_address(address), ())


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_an_allowed_address_may_be_called(address: str) -> None:
    bare = address.partition("%")[0]

    assert may_be_called(ip_address(bare), networks_of([bare]))


def test_a_network_allows_its_addresses_in_any_spelling() -> None:
    allowed = networks_of(["10.0.0.0/8"])

    assert may_be_called(ip_address("10.200.0.1"), allowed)
    assert may_be_called(ip_address("::ffff:10.200.0.1"), allowed)
    assert not may_be_called(ip_address("192.168.0.1"), allowed)


@pytest.mark.guarantee("SEC27")
@pytest.mark.parametrize("url", REFUSED)
def test_an_ambiguous_url_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match=r"^Sink\.Url "):
        target_of(url)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://example.com", Target(True, "example.com", 443, "example.com", "/")),
        (
            "http://Example.com:8080/a/b?c=d",
            Target(False, "example.com", 8080, "Example.com:8080", "/a/b?c=d"),
        ),
        ("http://127.0.0.1:90/", Target(False, "127.0.0.1", 90, "127.0.0.1:90", "/")),
        ("https://[2001:db8::1]:90/", Target(True, "2001:db8::1", 90, "[2001:db8::1]:90", "/")),
        ("http://my_service.local./?q", Target(False, "my_service.local.", 80, "my_service.local.", "/?q")),
    ],
)
def test_a_url_is_parsed_into_a_target(url: str, target: Target) -> None:
    assert target == target_of(url)


@given(
    st.one_of(
        st.text(max_size=60),
        st.text(max_size=40).map("http://".__add__),
        st.from_regex(r"https?://[!-~]{0,40}"),
    )
)
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        target = target_of(text)
    except ValidationError:
        return
    assert target.path.startswith("/")
    assert not set(" \r\n\t\0") & set(target.path + target.authority + target.host)
    assert "@" not in target.authority
