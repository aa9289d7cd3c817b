"""Only administrators see the URL of a webhook, which often contains a token."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.served import foldb, served

URL = "https://hooks.example:8443/services/T0/hush?token=hush"


def shown(url: str, key: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the output of the trigger commands for a key."""
    monkeypatch.setenv("FOLDB_ACCESS_KEY_ID", key["AccessKeyId"])
    monkeypatch.setenv("FOLDB_SECRET_ACCESS_KEY", key["SecretAccessKey"])
    shows = [foldb("trigger", *words, "--db", url, "-o", "json") for words in (("list",), ("show", "shop"))]
    assert [0, 0] == [each.returncode for each in shows], shows
    return "".join(each.stdout for each in shows)


@pytest.mark.guarantee("SEC29")
def test_only_an_administrator_sees_the_url_of_a_webhook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = tmp_path / "keys.toml"
    admin, reader, writer = (
        json.loads(foldb("key", "create", "--keys", keys, right, "*", "-o", "json").stdout)
        for right in ("--admin", "--read", "--write")
    )
    with served(tmp_path / "data", "--keys", str(keys)) as url:
        monkeypatch.setenv("FOLDB_ACCESS_KEY_ID", admin["AccessKeyId"])
        monkeypatch.setenv("FOLDB_SECRET_ACCESS_KEY", admin["SecretAccessKey"])
        for words in (
            ("table", "create", "Orders", "id:S"),
            ("trigger", "add", "shop", "--table", "Orders", "--webhook", URL),
        ):
            assert 0 == foldb(*words, "--db", url).returncode
        to_admin, *to_others = (shown(url, key, monkeypatch) for key in (admin, reader, writer))

    assert 2 == to_admin.count(URL)
    for each in to_others:
        assert 2 == each.count("https://hooks.example:8443/...")
        assert "hush" not in each


def test_without_keys_everyone_administers(tmp_path: Path) -> None:
    with served(tmp_path / "data") as url:
        foldb("table", "create", "Orders", "id:S", "--db", url)
        foldb("trigger", "add", "shop", "--table", "Orders", "--webhook", URL, "--db", url)

        assert URL in foldb("trigger", "show", "shop", "--db", url, "-o", "json").stdout
