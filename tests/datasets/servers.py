"""Files that a server in a thread of this process answers with, and those that a folder has."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def server_of(handler: type, **attributes: object) -> Iterator[tuple[str, list]]:
    """Yield the address of a server with these attributes, and the list of what it was asked."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.asked = []
    vars(server).update(attributes)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.asked
    finally:
        server.shutdown()
        server.server_close()


def files_below(folder: Path) -> list[str]:
    """Return the paths of all files below a folder, none where there is no folder."""
    return sorted(each.relative_to(folder).as_posix() for each in folder.rglob("*")
                  if each.is_file())  # fmt: skip
