"""The files of the page: whole, small, from nowhere else, and as they were published."""

import base64
import hashlib
import json
from pathlib import Path

from coordinator.http import index_page
from coordinator.http.index_page import read_page_files
from tests.http.conftest import Http
from tests.http.test_index_page import BROWSER

MOST_BYTES = 85_000
VENDOR = Path(index_page.__file__).with_name("static") / "vendor"


def test_it_is_small() -> None:
    assert sum(len(file.body) for file in read_page_files().values()) <= MOST_BYTES


def test_what_others_made_is_as_they_published_it() -> None:
    vendored = json.loads((VENDOR / "vendor.json").read_text())
    assert set(vendored) == {path.name for path in VENDOR.iterdir() if path.suffix in (".js", ".css")}
    for name, entry in vendored.items():
        digest = base64.b64encode(hashlib.sha512((VENDOR / name).read_bytes()).digest()).decode()
        assert entry["sha512"] == f"sha512-{digest}", name
        assert (VENDOR / f"{Path(name).stem}.LICENSE").is_file()


def test_nothing_comes_from_elsewhere() -> None:
    for name, file in read_page_files().items():
        if not name.startswith("vendor/"):
            assert b"//cdn" not in file.body
            assert b"https://" not in file.body, name


async def test_files_are_sent_with_what_guards_them(http: Http) -> None:
    kinds = {"/": "text/html", "/static/app.js": "text/javascript", "/static/style.css": "text/css"}
    for path, kind in kinds.items():
        answer = await http.get(path, headers=BROWSER)
        assert (answer.status, answer.content_type) == (200, kind)
        assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
        assert "unsafe" not in answer.headers["Content-Security-Policy"]
        again = await http.get(path, headers={**BROWSER, "If-None-Match": answer.headers["ETag"]})
        assert again.status == 304
    for missing in ("nothing.js", "../index_page.py", "%2e%2e/index_page.py", "vendor/vendor.json"):
        assert (await http.get(f"/static/{missing}")).status == 404
