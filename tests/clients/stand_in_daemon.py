"""A program that behaves as a daemon does at its start, for tests of how pytest-groupd finds and starts one."""

import sys
from pathlib import Path
from typing import Final

_PYTHON: Final = sys.executable  # tests replace it
_PROGRAM: Final = """#!{python}
import http.server, json, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({{"version": "{version}", "program": "{name}", "arguments": sys.argv[1:]}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(f"groupd ready kafka=127.0.0.1:1 http=127.0.0.1:{{server.server_port}} data=none", flush=True)
server.serve_forever()
"""


def write_stand_in(path: Path, version: str) -> Path:
    """Write the program. It answers every GET with `version`, its own path as `program`, and its `arguments`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_PROGRAM.format(python=_PYTHON, version=version, name=path))
    path.chmod(0o755)
    return path
