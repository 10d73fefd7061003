"""A small server for tests that speaks like S3, Google Cloud storage and Azure storage.

It has one bucket in memory, on the loopback address, and answers what pyarrow asks for to read:
list, head and get with ranges; as S3 also to write: put, uploads in parts, and delete. A request to
S3 or Azure must name the access key; signatures are not checked.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit
from uuid import uuid4
from xml.sax.saxutils import escape, unescape

KEY = "AKIATESTKEY"
ACCOUNT = "devaccount"
SECRET = "very-secret-key"
BLOCK = 1 << 16
MODIFIED = "Wed, 18 Nov 2026 10:00:00 GMT"
"""The same for all files, so that only size and ETag tell two versions apart."""


class ObjectStore:
    """The files of one bucket by name, and how many bytes were sent."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.files: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        """The parts of files that are not complete, by the id of the upload."""
        self.written: Counter[str] = Counter()
        """How often each file was written."""
        self.is_down = False
        """Whether every request fails, as if something was broken there."""
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
            "STORAGE_EMULATOR_HOST": self.address,
            "AZURE_STORAGE_CONNECTION_STRING": f"AccountName={ACCOUNT};AccountKey=c2VjcmV0;"
            f"BlobEndpoint={self.address}/{ACCOUNT}",
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

    def do_PUT(self) -> None:
        self._change(self._put)

    def do_POST(self) -> None:
        self._change(self._post)

    def do_DELETE(self) -> None:
        self._change(self._delete)

    def log_message(self, *_: object) -> None:
        pass

    def _handle(self, with_body: bool) -> None:
        url = urlsplit(self.path)
        path, query = unquote(url.path), parse_qs(url.query)
        if path.startswith("/storage/v1/b/"):
            self._google(path.removeprefix("/storage/v1/b/lake/o").lstrip("/"), query)
        elif path.startswith(f"/{ACCOUNT}/"):
            self._azure(path.removeprefix(f"/{ACCOUNT}/lake").lstrip("/"), query, with_body)
        else:
            self._s3(url, with_body)

    def _google(self, name: str, query: dict[str, list[str]]) -> None:
        """Answer like the JSON interface of Google Cloud storage."""
        if not name:
            found = [_google_object(each, self.store.files[each]) for each in self._names(query)]
            self._answer(200, json.dumps({"items": found}).encode(), True)
        elif name not in self.store.files:
            self._answer(404, b"{}", True)
        elif "alt" in query:
            self._file(self.store.files[name], True)
        else:
            described = _google_object(name, self.store.files[name])
            self._answer(200, json.dumps(described).encode(), True)

    def _azure(self, name: str, query: dict[str, list[str]], with_body: bool) -> None:
        """Answer like the blob interface of Azure storage, without folders of its own."""
        headers = {"x-ms-request-id": "1", "x-ms-version": "2021-01-01"}
        if ACCOUNT not in self.headers.get("Authorization", ""):
            error = {"x-ms-error-code": "AuthenticationFailed"}
            self._answer(403, b"", with_body, headers | error)
        elif "list" in query.get("comp", []):
            blobs = "".join(
                _azure_blob(each, self.store.files[each]) for each in self._names(query)
            )
            body = f"<EnumerationResults><Blobs>{blobs}</Blobs><NextMarker/></EnumerationResults>"
            self._answer(200, body.encode(), True, headers | {"Content-Type": "application/xml"})
        elif name not in self.store.files:
            self._answer(404, b"", with_body, headers | {"x-ms-error-code": "BlobNotFound"})
        else:
            blob = {
                "x-ms-blob-type": "BlockBlob",
                "x-ms-creation-time": MODIFIED,
                "x-ms-server-encrypted": "true",
                "x-ms-lease-status": "unlocked",
                "x-ms-lease-state": "available",
                "Content-Type": "application/octet-stream",
            }
            self._file(self.store.files[name], with_body, headers | blob)

    def _names(self, query: dict[str, list[str]]) -> list[str]:
        """Return the files that begin with the prefix of a request."""
        prefix = query.get("prefix", [""])[0]
        return [name for name in sorted(self.store.files) if name.startswith(prefix)]

    def _s3(self, url: SplitResult, with_body: bool) -> None:
        """Answer like S3."""
        if self._refused(url, with_body):
            return
        name = unquote(url.path).lstrip("/").partition("/")[2]
        if not name and with_body:
            self._answer(200, self._listing(parse_qs(url.query)), True)
        elif not name:
            self._answer(200, b"", False)
        elif name not in self.store.files:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>", with_body)
        else:
            self._file(self.store.files[name], with_body)

    def _refused(self, url: SplitResult, with_body: bool) -> bool:
        """Refuse a request to S3 that has not the right key or bucket; return whether it was."""
        if self.store.is_down:
            self._answer(503, b"<Error><Code>SlowDown</Code></Error>", with_body)
            return True
        if KEY not in self.headers.get("Authorization", ""):
            sent = self.headers.get("Authorization", "")
            body = (
                f"<Error><Code>InvalidAccessKeyId</Code><Message>{escape(sent)}</Message></Error>"
            )
            self._answer(403, body.encode(), with_body)
            return True
        if unquote(url.path).lstrip("/").partition("/")[0] != "lake":
            self._answer(404, b"<Error><Code>NoSuchBucket</Code></Error>", with_body)
            return True
        return False

    def _change(self, change: Callable[[str, dict[str, list[str]], bytes], None]) -> None:
        """Answer a request to S3 that changes something."""
        url = urlsplit(self.path)
        body = self._body()
        if self._refused(url, with_body=True):
            return
        name = unquote(url.path).lstrip("/").partition("/")[2]
        change(name, parse_qs(url.query, keep_blank_values=True), body)

    def _body(self) -> bytes:
        """Return what the client has sent, without the frames of a stream in chunks."""
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b"".join(iter(self._chunk, b""))
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") != "aws-chunked":
            return body
        content, rest = b"", body
        while rest:
            head, _, rest = rest.partition(b"\r\n")
            size = int(head.partition(b";")[0], 16)
            content, rest = content + rest[:size], rest[size + 2 :]
            if not size:
                break
        return content

    def _chunk(self) -> bytes:
        size = int(self.rfile.readline().partition(b";")[0], 16)
        chunk = self.rfile.read(size)
        self.rfile.readline()
        return chunk

    def _put(self, name: str, query: dict[str, list[str]], body: bytes) -> None:
        if "uploadId" in query:
            self.store.uploads[query["uploadId"][0]][int(query["partNumber"][0])] = body
        else:
            self._keep(name, body)
        self._answer(200, b"", True, {"ETag": f'"{hashlib.md5(body).hexdigest()}"'})

    def _keep(self, name: str, content: bytes) -> None:
        self.store.files[name] = content
        self.store.written[name] += 1

    def _post(self, name: str, query: dict[str, list[str]], body: bytes) -> None:
        if "delete" in query:
            for key in re.findall(r"<Key>(.*?)</Key>", body.decode()):
                self.store.files.pop(unescape(key), None)
            self._answer(200, b"<DeleteResult></DeleteResult>", True)
        elif "uploads" in query:
            upload = uuid4().hex
            self.store.uploads[upload] = {}
            tag = f"<Bucket>lake</Bucket><Key>{escape(name)}</Key><UploadId>{upload}</UploadId>"
            result = f"<InitiateMultipartUploadResult>{tag}</InitiateMultipartUploadResult>"
            self._answer(200, result.encode(), True)
        else:
            parts = self.store.uploads.pop(query["uploadId"][0])
            self._keep(name, b"".join(parts[number] for number in sorted(parts)))
            tag = f"<Bucket>lake</Bucket><Key>{escape(name)}</Key><ETag>1</ETag>"
            result = f"<CompleteMultipartUploadResult>{tag}</CompleteMultipartUploadResult>"
            self._answer(200, result.encode(), True)

    def _delete(self, name: str, query: dict[str, list[str]], body: bytes) -> None:
        if "uploadId" in query:
            self.store.uploads.pop(query["uploadId"][0], None)
        else:
            self.store.files.pop(name, None)
        self._answer(204, b"", False)

    def _file(self, content: bytes, with_body: bool, more: dict[str, str] | None = None) -> None:
        headers = {
            **(more or {}),
            "ETag": f'"{hashlib.md5(content).hexdigest()}"',
            "Last-Modified": MODIFIED,
            "Accept-Ranges": "bytes",
        }
        asked = self.headers.get("x-ms-range") or self.headers.get("Range", "")
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", asked)
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


def _google_object(name: str, content: bytes) -> dict[str, Any]:
    return {
        "kind": "storage#object",
        "name": name,
        "bucket": "lake",
        "size": str(len(content)),
        "updated": "2026-11-18T10:00:00Z",
        "timeCreated": "2026-11-18T10:00:00Z",
        "generation": str(int(hashlib.md5(content).hexdigest()[:8], 16)),
    }


def _azure_blob(name: str, content: bytes) -> str:
    return (
        f"<Blob><Name>{escape(name)}</Name><Properties><Creation-Time>{MODIFIED}</Creation-Time>"
        f"<Last-Modified>{MODIFIED}</Last-Modified><Etag>{hashlib.md5(content).hexdigest()}</Etag>"
        f"<Content-Length>{len(content)}</Content-Length><BlobType>BlockBlob</BlobType>"
        "<LeaseStatus>unlocked</LeaseStatus><LeaseState>available</LeaseState>"
        "<ServerEncrypted>true</ServerEncrypted></Properties></Blob>"
    )
