"""The server under attack: other sites and hosts, paths, crowds, readers that do not read."""

import json
import re
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from tests.dashboard.rows import log, run
from tests.dashboard.serving import Socket, asked, connected, descriptors, resident_bytes, served

MIB = 1 << 20
PAGES = ("/", "/static/page.css", "/export?format=csv&view={}", "/live", "/enter", "/nothing")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = log(tmp_path_factory.mktemp("logs") / "a.log", run(3000))
    with served(path) as (link, process):
        yield link.rstrip("/"), process, path


@pytest.mark.parametrize("path", PAGES)
def test_a_forged_host_sees_nothing(server, path):
    link, _, _ = server
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "", None):
        status, _, body = asked(link, path, Host=host)
        assert status in (400, 403)
        assert b"autotune</" not in body


@pytest.mark.parametrize("path", PAGES)
def test_every_answer_has_the_headers_that_keep_others_out(server, path):
    status, headers, _ = asked(server[0], path)
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Access-Control-Allow-Origin" not in headers
    assert headers["Server"] == "autotune"
    assert status < 500


def test_the_page_has_no_script_of_its_own_and_names_nobody_else(server):
    _, _, body = asked(server[0], "/")
    page = body.decode()
    assert all(
        re.findall(r"<script[^>]* src=\"static/", tag) for tag in re.findall("<script[^>]*>", page)
    )
    assert "http://" not in page
    assert "https://" not in page
    assert not re.search(r"\son\w+=|style=", page)


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://localhost:1",
        None,
        "file://{}",
        "moz-extension://{}",
    ],
)
def test_a_page_of_another_site_cannot_listen(server, origin):
    own = server[0].removeprefix("http://")
    for claimed in ({}, {"Sec-Fetch-Site": "same-origin"}):
        socket = Socket(server[0], Origin=origin and origin.format(own), **claimed)
        assert socket.status == 403
        socket.close()


@pytest.mark.parametrize("token", ["a%0d%0aX:y", "%F0%9F%98%80", "plain", ""])
def test_where_there_is_no_token_none_is_kept(server, token):
    status, headers, _ = asked(server[0], f"/enter?token={token}")
    assert (status, headers["Location"]) == (302, "./")
    assert "Set-Cookie" not in headers


def exporting(link):
    """Return a connection that asked for all trials and reads none."""
    made = connected(link, receive_bytes=4096)
    made.sendall(b"GET /export?format=json HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return made


def test_exports_that_nobody_reads_keep_nobody_from_exporting(server):
    stuck = [exporting(server[0]) for _ in range(4)]
    status, _, body = asked(server[0], "/export?format=csv")
    assert status == 200
    assert body.count(b"\n") > 3000
    for one in stuck:
        one.close()


def test_an_export_that_is_asked_for_at_once_has_all_that_stands_in_the_log(tmp_path):
    with served(log(tmp_path / "a.log", run(6000))) as (link, _):
        status, _, body = asked(link.rstrip("/"), "/export?format=csv")
    assert status == 200
    assert body.count(b"\n") > 6000


def test_a_crowd_that_idles_ends_no_export(server):
    made = exporting(server[0])
    assert made.recv(100)
    crowd = [connected(server[0]) for _ in range(300)]
    body = b""
    while not body.endswith(b"0\r\n\r\n") and (part := made.recv(1 << 20)):
        body += part
    assert body.endswith(b"]\n\r\n0\r\n\r\n")
    for one in [made, *crowd]:
        one.close()


PATHS = [
    "/static/../../../../../../etc/passwd", "/static/..%2f..%2f..%2fetc%2fpasswd",
    "/static//etc/passwd",
    "/static/%2e%2e/%2e%2e/server.py", "/static/..\\..\\server.py", "/static/vendor/../page.css",
    "/static/", "/static", "/static/vendor", "/static/page.css/", "/static/index.html",
    "/static/page.css%00.html", "//etc/passwd", "/a.log", "/../a.log", "/export/../a.log",
    "/static/vendor/README.md", "/%2e%2e/a.log", "/export?format=../../a", "/export?view=../a.log",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_no_path_leads_to_a_file(server, path):
    status, _, body = asked(server[0], path)
    assert status in (400, 404)
    assert len(body) < 100
    assert b"root:" not in body


def answer_to(made, request):
    """Return the status of an answer; nothing where the connection was ended."""
    with suppress(ConnectionError):
        made.sendall(request)
        return b"".join(made.recv(100).split()[1:2])
    return b""


def test_other_methods_and_bodies_are_refused(server):
    link, process, _ = server
    before = resident_bytes(process)
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        with connected(link) as made:
            head = f"{method} / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n"
            assert answer_to(made, head.encode() + b"x" * 1000) in (b"405", b"400", b"413", b"")
    with connected(link) as made:
        head = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "
        assert answer_to(made, head + b"y" * 100_000) != b"200"
    assert resident_bytes(process) - before < 20 * MIB


@pytest.mark.parametrize(
    "message", [b"", b"{", b"[1]", b'{"workload": -1}', b"[" * 60_000, b'"' + b"a" * 70_000 + b'"']
)
def test_a_client_that_sends_nonsense_is_disconnected(server, message):
    socket = Socket(server[0])
    socket.send(message)
    while socket.receive() is not None:
        pass
    socket.close()


def test_a_thousand_idle_connections_cost_little_and_keep_nobody_out(server):
    link, process, _ = server
    before, crowd = resident_bytes(process), []
    reader = Socket(link)
    assert reader.receive()["type"] == "overview"
    for _ in range(1000):
        crowd.append(connected(link))
    for one in crowd:
        one.settimeout(0.01)
    began = time.monotonic()
    assert asked(link, "/")[0] == 200
    assert time.monotonic() - began < 15
    assert descriptors(process) < 400
    assert resident_bytes(process) - before < 100 * MIB
    reader.send({"workload": 0})
    view = reader.view()
    while view["total"] < 3000:  # a busy machine has read a part of the log by now
        view = reader.view(view["revision"] + 1)
    assert view["total"] == 3000
    for one in [reader, *crowd]:
        one.close()


def test_readers_are_only_so_many(server):
    link, _, _ = server
    readers = [Socket(link) for _ in range(70)]
    statuses = [one.status for one in readers]
    assert statuses[0] == 101
    assert statuses[-1] == 503
    for one in readers:
        one.close()
    until = time.monotonic() + 20
    while (last := Socket(link)).status != 101 and time.monotonic() < until:
        last.close()
        time.sleep(0.1)
    assert last.status == 101
    last.close()


def test_100_megabytes_owed_to_a_reader_who_does_not_read_are_never_kept(server):
    link, process, path = server
    slow, quick = Socket(link, receive_bytes=4096), Socket(link)
    quick.send({"workload": 0})
    size = len(json.dumps(quick.view()))
    slow.send({"workload": 0})
    before = resident_bytes(process)
    for turn in range(100 * MIB // size + 1):  # each would be another message of that size
        slow.send({"workload": 0, "seconds": [None, 1 + turn]})
    with path.open("a") as file:
        file.write((path.read_text().partition("\n")[0] + "\n") * 5)
    while quick.view()["total"] != 3005:  # who reads is told what is new all the same
        pass
    assert resident_bytes(process) - before < 40 * MIB
    slow.close()
    quick.close()


def test_a_token_lets_in_who_has_it_and_nobody_else(tmp_path):
    path = log(tmp_path / "a.log", run(3))
    command = [sys.executable, "-m", "autotune", "serve", "--token", "--port", "0", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:
        whole = process.stdout.readline().split()[-1]
        link, _, token = whole.partition("/enter?token=")
        assert len(token) > 40
        assert "not shown again" in process.stdout.readline()
        for page in ("/", "/static/page.css", "/export?format=csv&view={}", "/live"):
            assert asked(link, page)[0] == 403
        assert asked(link, "/enter?token=wrong")[0] == 403
        assert asked(link, "/", Cookie=f"autotune={token}")[0] == 403
        status, headers, _ = asked(link, f"/enter?token={token}")
        assert (status, headers["Location"]) == (302, "./")
        cookie = headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Lax" in cookie
        assert asked(link, "/", Cookie=cookie.partition(";")[0])[0] == 200
        refused, let_in = Socket(link), Socket(link, Cookie=cookie.partition(";")[0])
        assert (refused.status, let_in.status) == (403, 101)
        refused.close()
        let_in.close()
        process.terminate()
