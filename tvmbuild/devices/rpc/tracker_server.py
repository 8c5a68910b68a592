"""TVM's RPC tracker, run in this process. TVM's own program starts a second process, which may outlive the first."""

from __future__ import annotations

import asyncio
import socket

from tvm.rpc import base
from tvm.rpc.tracker import TrackerServerHandler


def serve_tracker(host: str, port: int) -> None:
    """Run the tracker at the address for ever. Raises OSError if the address cannot be bound."""
    with socket.socket(base.get_addr_family((host, port)), socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()
        print(f"tracker on {host}:{port}", flush=True)
        asyncio.set_event_loop(asyncio.new_event_loop())
        TrackerServerHandler(listener, base.random_key("tracker")).run()
