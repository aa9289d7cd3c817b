"""A certificate authority for one run of the tests, and servers' certificates from it, made by the openssl program."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

_NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1"
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


@dataclass(frozen=True)
class Files:
    """A server's certificate, its private key, and the certificate of the authority."""

    cert: Path
    key: Path
    ca: Path


def make_certificates(folder: Path, name: str = "server") -> Files:
    """A new authority, and a certificate from it for this machine."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the program openssl, to make certificates")
    ca, ca_key = folder / f"{name}-ca.pem", folder / f"{name}-ca.key"
    cert, key, wish = (folder / f"{name}.{kind}" for kind in ("pem", "key", "csr"))
    _openssl(
        "req", "-x509", *_KEY, "-keyout", ca_key, "-out", ca, "-days", "2", "-subj", f"/CN={name} authority",
        "-addext", "keyUsage=critical,keyCertSign",
    )  # fmt: skip
    _openssl("req", *_KEY, "-keyout", key, "-out", wish, "-subj", f"/CN={name}", "-addext", _NAMES)
    _openssl(
        "x509", "-req", "-in", wish, "-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-out", cert, "-days", "2",
        "-copy_extensions", "copy",
    )  # fmt: skip
    return Files(cert, key, ca)


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
