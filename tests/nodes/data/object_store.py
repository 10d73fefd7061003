"""A small S3 server for tests: one bucket in memory, on the loopback address.

It answers what pyarrow asks for to read: list, head and get with ranges. A request must name the
access key; signatures are not checked.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

KEY = "AKIATESTKEY"
SECRET = "very-secret-key"
BLOCK = 1 << 16
MODIFIED = "Wed, 18 Nov 2026 10:00:00 GMT"
"""The same for all files, so that only size and ETag tell two versions apart."""


class ObjectStore:
    """The files of one bucket by name, and how many bytes were sent."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.files: dict[str, bytes] = {}
        self.sent_bytes = 0

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which a program finds the server and may read from it."""
        return {
            "AWS_ENDPOINT_URL": self.address,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Yield a running server; it ends with the block."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    store = ObjectStore(f"http://127.0.0.1:{server.server_port}")
    _Handler.stores[server.server_port] = store
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stores: ClassVar[dict[int, ObjectStore]] = {}

    @property
    def store(self) -> ObjectStore:
        return self.stores[self.server.server_address[1]]

    def do_GET(self) -> None:
        self._handle(with_body=True)

    def do_HEAD(self) -> None:
        self._handle(with_body=False)

    def log_message(self, *_: object) -> None:
        pass

    def _handle(self, with_body: bool) -> None:
        url = urlsplit(self.path)
        bucket, _, name = unquote(url.path).lstrip("/").partition("/")
        if KEY not in self.headers.get("Authorization", ""):
            sent = self.headers.get("Authorization", "")
            body = (
                f"<Error><Code>InvalidAccessKeyId</Code><Message>{escape(sent)}</Message></Error>"
            )
            self._answer(403, body.encode(), with_body)
        elif bucket != "lake":
            self._answer(404, b"<Error><Code>NoSuchBucket</Code></Error>", with_body)
        elif not name and with_body:
            self._answer(200, self._listing(parse_qs(url.query)), True)
        elif not name:
            self._answer(200, b"", False)
        elif name not in self.store.files:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>", with_body)
        else:
            self._file(self.store.files[name], with_body)

    def _file(self, content: bytes, with_body: bool) -> None:
        headers = {
            "ETag": f'"{hashlib.md5(content).hexdigest()}"',
            "Last-Modified": MODIFIED,
            "Accept-Ranges": "bytes",
        }
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not wanted:
            self._answer(200, content, with_body, headers)
            return
        start = int(wanted[1])
        end = min(int(wanted[2] or len(content)), len(content) - 1)
        headers["Content-Range"] = f"bytes {start}-{end}/{len(content)}"
        self._answer(206, content[start : end + 1], with_body, headers)

    def _listing(self, query: dict[str, list[str]]) -> bytes:
        prefix = query.get("prefix", [""])[0]
        delimiter = query.get("delimiter", [""])[0]
        folders, parts = set(), []
        for name, content in sorted(self.store.files.items()):
            rest = name.removeprefix(prefix)
            if not name.startswith(prefix):
                continue
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
            else:
                parts.append(
                    f"<Contents><Key>{escape(name)}</Key><Size>{len(content)}</Size>"
                    "<LastModified>2026-11-18T10:00:00.000Z</LastModified></Contents>"
                )
        parts += [
            f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
            for name in sorted(folders)
        ]
        count = len(parts)
        return (
            '<?xml version="1.0"?><ListBucketResult><Name>lake</Name>'
            f"<KeyCount>{count}</KeyCount><IsTruncated>false</IsTruncated>{''.join(parts)}"
            "</ListBucketResult>"
        ).encode()

    def _answer(
        self, status: int, body: bytes, with_body: bool, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        # A reader that has enough closes the connection.
        with suppress(ConnectionError):
            for start in range(0, len(body) if with_body else 0, BLOCK):
                self.wfile.write(body[start : start + BLOCK])
                self.store.sent_bytes += len(body[start : start + BLOCK])
