"""Storages of other machines: S3, Google Cloud, Azure, or a folder given as ``file:///folder``.

- ``scheme_of``, ``path_in_storage``, ``file_system``  what an address means
- ``kind_of_error``   why a storage did not do what it was asked for, in one word

Credentials come from the environment only. Messages of a storage are never repeated: some of them
contain parts of the credentials.
"""

from __future__ import annotations

import os
import re
from functools import cache
from typing import Any, Literal

from engine.errors import BadInput

STORAGES = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "abfs": "AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY",
}
"""The schemes of storages, and the environment variables that hold the credentials."""
FOLDER = "file"
"""The scheme of a folder of this machine."""
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
AZURE_HOST = re.compile(r"(?P<container>[^@:/]+)@(?P<account>[^@:/.]+)\.dfs\.core\.windows\.net")

CONNECT_SECONDS = 5.0
REQUEST_SECONDS = 20.0

ErrorKind = Literal["missing", "denied", "unreachable", "other"]


def scheme_of(address: str) -> str:
    """Return the scheme of an address in lower case; empty for the name of a file."""
    match = SCHEME.match(address)
    return match[1].lower() if match else ""


def path_in_storage(address: str) -> str:
    """Return the path inside the storage: it begins with the bucket or the container."""
    authority, _, path = address.partition("://")[2].partition("/")
    azure = AZURE_HOST.fullmatch(authority)
    container = azure["container"] if azure else authority
    return f"{container}/{path}".rstrip("/")


def file_system(address: str) -> Any:
    """Return the file system of pyarrow for an address, with the credentials of the environment."""
    azure = AZURE_HOST.fullmatch(address.partition("://")[2].partition("/")[0])
    return _file_system(scheme_of(address), azure["account"] if azure else "")


@cache
def _file_system(scheme: str, account: str) -> Any:
    """Return the file system of a scheme; the same one for all addresses of an account."""
    from datetime import timedelta

    from pyarrow import fs

    if scheme == FOLDER:
        return fs.LocalFileSystem()
    if scheme == "s3":
        return fs.S3FileSystem(
            connect_timeout=CONNECT_SECONDS,
            request_timeout=REQUEST_SECONDS,
            # A small file takes one request instead of three.
            allow_delayed_open=True,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=2),
            **_endpoint("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        )
    if scheme == "gs":
        emulator = _endpoint("STORAGE_EMULATOR_HOST")
        return fs.GcsFileSystem(
            retry_time_limit=timedelta(seconds=CONNECT_SECONDS),
            anonymous=bool(emulator),
            **emulator,
        )
    return fs.AzureFileSystem(**_azure_options(account))


def forget_file_systems() -> None:
    """Make new file systems from now on, for example after the environment has changed."""
    _file_system.cache_clear()


def _endpoint(*variables: str) -> dict[str, Any]:
    """Return host and protocol of another server than the usual one, if the environment has one."""
    address = next((os.environ[name] for name in variables if os.environ.get(name)), "")
    protocol, _, host = address.rstrip("/").rpartition("://")
    return {"endpoint_override": host, "scheme": protocol or "http"} if host else {}


def _azure_options(account: str) -> dict[str, Any]:
    """Return account and credentials of an Azure storage, as the environment has them."""
    text = os.environ.get("AZURE_STORAGE_CONNECTION_STRING", "")
    pairs = [part.partition("=") for part in text.split(";") if "=" in part]
    settings = {name: value for name, _, value in pairs}
    key = settings.get("AccountKey") or os.environ.get("AZURE_STORAGE_KEY")
    token = os.environ.get("AZURE_STORAGE_SAS_TOKEN")
    name = account or settings.get("AccountName") or os.environ.get("AZURE_STORAGE_ACCOUNT")
    if not name:
        raise BadInput(
            "the address does not name the account; write it like "
            "abfs://container@account.dfs.core.windows.net/file.csv, or set "
            "AZURE_STORAGE_ACCOUNT in the environment of Sylva",
            field="source",
        )
    options: dict[str, Any] = {"account_name": name}
    if key:
        options["account_key"] = key
    elif token:
        options["sas_token"] = token
    protocol, _, endpoint = settings.get("BlobEndpoint", "").partition("://")
    if endpoint:
        host = endpoint.partition("/")[0]
        options |= {"blob_storage_authority": host, "blob_storage_scheme": protocol}
        options |= {"dfs_storage_authority": host, "dfs_storage_scheme": protocol}
    return options


NOT_FOUND = ("NO_SUCH", "NOT_FOUND", "NoSuch", "404", "not found", "does not exist")
DENIED = (
    "ACCESS_DENIED", "AccessDenied", "INVALID_ACCESS_KEY_ID", "InvalidAccessKeyId",
    "SIGNATURE_DOES_NOT_MATCH", "SignatureDoesNotMatch", "HTTP status 403", "HTTP status 401",
    "UNRECOGNIZED_CLIENT", "INVALID_SIGNATURE", "AuthenticationFailed", "AuthorizationFailure",
    "NoAuthenticationInformation", "PERMISSION_DENIED", "UNAUTHENTICATED", "credential",
    "EXPIRED_TOKEN", "ExpiredToken", " 403 ", " 401 ",
)  # fmt: skip
UNREACHABLE = (
    "NETWORK_CONNECTION", "curlCode", "CURL", "Couldn't connect", "Could not resolve", "timeout",
    "Timeout", "timed out", "UNAVAILABLE", "transport", "Fail to get a new connection",
)  # fmt: skip


def kind_of_error(error: Exception) -> ErrorKind:
    """Return why a storage did not do what it was asked for."""
    text = str(error)
    if isinstance(error, FileNotFoundError) or _names(text, NOT_FOUND):
        return "missing"
    if isinstance(error, PermissionError) or _names(text, DENIED):
        return "denied"
    return "unreachable" if _names(text, UNREACHABLE) else "other"


def _names(text: str, words: tuple[str, ...]) -> bool:
    return any(word in text for word in words)


def code_of_error(error: Exception) -> str:
    """Return the code of an error of S3 in words, such as slow down; empty if it has none."""
    # A code helps, and cannot contain a secret.
    code = re.search(r"AWS Error ([A-Z_]{3,40})\b", str(error))
    if code is None or code[1] == "UNKNOWN":
        return ""
    return code[1].lower().replace("_", " ")
