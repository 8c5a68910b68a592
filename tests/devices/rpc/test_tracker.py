from __future__ import annotations

import socket
import threading

import pytest
from rpc_boards import free_port

from tvmbuild.devices.rpc.tracker import list_boards, split_address
from tvmbuild.errors import TvmbuildError


def test_an_address_may_be_of_ipv6() -> None:
    assert split_address("pi.local:9190") == ("pi.local", 9190)
    assert split_address("::1:9190") == ("::1", 9190)


def test_nobody_answers() -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(TvmbuildError, match=f"no RPC tracker answers at {address}: Connection refused") as caught:
        list_boards(address)
    assert "`tvmbuild device tracker --port " in (caught.value.hint or "")


def test_what_answers_is_no_tracker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(
            TvmbuildError,
            match=f"the program at {address} is not an RPC tracker: it does not speak the protocol of a tracker",
        ):
            list_boards(address)
        thread.join()
