"""The messages about a board behind ssh for troubles that cannot be produced here."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tvmbuild.devices.machine_state import MachineState
from tvmbuild.devices.ssh.program import find_files
from tvmbuild.devices.ssh.relay import FilesWatch
from tvmbuild.devices.ssh.trouble import explain_connection, explain_program
from tvmbuild.errors import TvmbuildError

LOADER = "./serve_model: error while loading shared libraries: libstdc++.so.6: cannot open shared object file"


@pytest.mark.parametrize(
    ("code", "said", "message", "hint"),
    [
        (
            2,
            "tar: a: Cannot write: No space left on device\ntar: Exiting with failure status",
            "tar: a: Cannot",
            "room",
        ),
        (2, "tar: package.tar: Cannot write: No space left on device", "No space left on device", "make room there"),
        (1, "tar: write error: No space left on device", "failed with exit code 1", "make room there"),
        (127, LOADER, "libstdc++.so.6", "install libstdc++ there"),
        (127, "sh: 1: ./serve_model: not found", "./serve_model: not found", "32-bit"),
        (126, "sh: 1: ./serve_model: Permission denied", "Permission denied", "noexec"),
        (1, "./serve_model: /lib/libc.so.6: version `GLIBC_2.28' not found", "GLIBC_2.28", "older than"),
        (132, "Illegal instruction", "died of SIGILL", "another mcpu"),
        (137, "Killed", "was killed", "out of memory"),
        (3, "", "failed with exit code 3: it says nothing", None),
    ],
)
def test_what_ended_on_the_board(code: int, said: str, message: str, hint: str | None) -> None:
    error = explain_program("pi@pi", code, said, "the program")
    assert error.message.startswith("on the board pi@pi: the program ")
    assert message in error.message
    assert (hint is None) == (error.hint is None)
    assert (hint or "") in (error.hint or "")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("ssh: connect to host pi port 22: Connection timed out", "it does not answer"),
        (
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
            "it has another host key than the one that is known",
        ),
        ("Unable to negotiate with 10.0.0.2: no matching cipher", "Unable to negotiate with 10.0.0.2"),
        ("", "it says nothing"),
    ],
)
def test_a_connection_that_is_not_made(said: str, message: str) -> None:
    error = explain_connection("pi@pi", said)
    assert error.message.startswith("no connection to the board pi@pi: ")
    assert message in error.message
    assert error.hint


def test_a_machine_without_wheels_is_said() -> None:
    with pytest.raises(TvmbuildError, match="there is no TVM runtime for armv7l, only for x86_64 and aarch64"):
        find_files("armv7l")


def test_a_raspberry_pis_files_say_what_state_it_is_in(monkeypatch: pytest.MonkeyPatch) -> None:
    stat = "cpu  {user} 0 0 900 0 0 0 0 0 0\ncpu0 0\ncpu1 0\ncpu2 0\ncpu3 0\nintr 5\n"
    files = {
        "/proc/stat": stat.format(user=1000),
        "/proc/self/stat": "7 (a (b) c) S 1 1 1 0 -1 0 0 0 0 0 100 50 0 0 20 0",
        "/proc/loadavg": "0.52 0.40 0.30 1/100 7\n",
        "/proc/cpuinfo": "processor\t: 0\nCPU part\t: 0xd08\n\nModel\t\t: Raspberry Pi 4 Model B Rev 1.4\n",
        "/sys/class/thermal/thermal_zone0/temp": "48312\n",
    }
    clock = iter((10.0, 20.0))
    monkeypatch.setattr("tvmbuild.devices.ssh.relay.time", SimpleNamespace(monotonic=lambda: next(clock)))
    watch = FilesWatch(lambda path: files.get(path, ""), "aarch64")
    # In 10 s four cores could work 40; 10 were worked, 6 of them by our own processes.
    files["/proc/stat"] = stat.format(user=2000)
    files["/proc/self/stat"] = "7 (a (b) c) S 1 1 1 0 -1 0 0 0 0 0 600 150 0 0 20 0"
    assert watch.read() == MachineState("Raspberry Pi 4 Model B Rev 1.4", 4, None, 0.52, 0.1, 48.3)
    clock = iter((0.0, 1.0))
    nothing = FilesWatch(lambda _: "", "aarch64")
    assert nothing.read() == MachineState("aarch64", 1)
