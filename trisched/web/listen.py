"""The socket of the web interface, bound before anything else begins: a port that is taken is told at once."""

from __future__ import annotations

import errno
import os
import socket
from typing import Final

from trisched.errors import Misconfigured

_BACKLOG: Final = 1024


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens, so that a port that is taken is told before anything else has begun."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise Misconfigured(f"port {port} on {host} is in use; choose another with --port, or 0 for any") from None
        raise Misconfigured(f"cannot listen on {host}, port {port}: {os.strerror(error.errno or 0)}") from None


def address(bound: socket.socket) -> str:
    """The URL under which ``bound`` is reached."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
