"""The kind of device for boards behind an RPC tracker: `device: {rpc: {tracker: host:port, key: pi4}}`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from tvmbuild.base.device_specs import RpcDevice
from tvmbuild.base.progress import report_progress
from tvmbuild.base.specs import TargetSpec
from tvmbuild.devices.kind import Cores, DeviceKind
from tvmbuild.devices.lock import device_lock

if TYPE_CHECKING:
    from tvmbuild.devices.device import Device  # imports NumPy
    from tvmbuild.devices.rpc.boards import BoardTimer  # imports TVM

LIMITS = {
    "timeout_s": "A board that gives no sign of life for so many seconds is lost.",
    "wait_s": "Busy boards are waited for, so many seconds.",
    "session_s": "The board ends a session after so many seconds, in case it is forgotten.",
}


class Rpc(DeviceKind[RpcDevice]):
    """The kind `rpc` of device. Boards of a key come and go, so the planner cannot tell whether one exists."""

    name = "rpc"
    about = "A board behind an RPC tracker."
    schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "description": "The tracker and the board's key.",
        "additionalProperties": False,
        "properties": {
            "tracker": {
                "type": "string",
                "description": "Tracker's host:port.",
                "pattern": "^[^\\s:]+:[0-9]{1,5}$",
                "patternErrorMessage": "host:port",
            },
            "key": {"type": "string", "description": "The board's key at the tracker.", "minLength": 1},
            **{
                name: {
                    "type": "number",
                    "description": about,
                    "exclusiveMinimum": 0,
                    "default": getattr(RpcDevice, name),
                }
                for name, about in LIMITS.items()
            },
        },
        "required": ["tracker", "key"],
    }
    form = "rpc:HOST:PORT/KEY"

    def parse(self, value: Any) -> RpcDevice:
        """Return the device of the value of `rpc: {tracker: …, key: …}` in targets.yaml."""
        limits = {name: float(value[name]) for name in LIMITS if name in value}
        return RpcDevice(value["tracker"], value["key"], **limits)

    def read(self, text: str) -> RpcDevice | None:
        """Return the device of `--device rpc:HOST:PORT/KEY`, or None if the text has another form."""
        tracker, _, key = text.partition("/")
        host, _, port = tracker.rpartition(":")
        return RpcDevice(tracker, key) if host and port.isdigit() and key else None

    def describe_use(self, spec: RpcDevice, _target: TargetSpec) -> str:
        """Return the boards' key and their tracker as a phrase."""
        return f"{spec.key} at {spec.tracker}"

    def describe_timing(self, spec: RpcDevice) -> str:
        """Return the boards' key and their tracker as the end of a step's description."""
        return f" on {spec.key} at {spec.tracker}"

    def name_place(self, spec: RpcDevice, kind: str) -> str:
        """Return the target's kind, `rpc` and the boards' key: boards of one key share their rates."""
        return f"{kind} {self.name} {spec.key}"

    def frees_cores(self, _kind: str) -> bool:
        """Return True, because boards time the candidates, and this machine only builds them."""
        return True

    def find_device_class(self, spec: RpcDevice, kind: str, measured_on: str | None) -> str:
        """Return ``measured_on``, or else the name of the board's CPU or GPU; the board is asked for it once."""
        return measured_on or _ask_board(spec, kind)

    @contextmanager
    def hold(self, spec: RpcDevice, _kind: str) -> Iterator[None]:
        """Hold the lock of the key's boards exclusively, and this machine's lock shared, because it only builds."""
        from tvmbuild.devices.rpc.device import lock_name  # noqa: PLC0415 - imports NumPy

        with device_lock(lock_name(spec), exclusive=True), device_lock("local", exclusive=False):
            yield

    def make_timer(self, spec: RpcDevice, kind: str, threads: int, _cores: Cores) -> BoardTimer:
        """Return the timer of candidates on all boards of the key."""
        from tvmbuild.devices.rpc.boards import BoardTimer  # noqa: PLC0415 - imports TVM

        return BoardTimer(spec, kind, threads)

    def open(self, spec: RpcDevice) -> Device:
        """Return all boards of the key as one opened device. No connection is opened yet."""
        from tvmbuild.devices.rpc.device import open_rpc  # noqa: PLC0415 - imports NumPy

        return open_rpc(spec)


def find_boards_of(targets: Iterable[TargetSpec]) -> dict[str, RpcDevice]:
    """Return the `rpc` devices of the targets, by the targets' names. Targets with other devices are left out."""
    return {target.name: target.device for target in targets if isinstance(target.device, RpcDevice)}


@cache
def _ask_board(device: RpcDevice, kind: str) -> str:
    from tvmbuild.devices.rpc.boards import find_board_class  # noqa: PLC0415 - imports TVM

    report_progress(f"asking a board {device.key} what it is")
    return find_board_class(device, kind)
