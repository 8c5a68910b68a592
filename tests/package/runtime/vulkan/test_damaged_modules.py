"""Modules with wrong bytes: refused with a message, without asking a device."""

from __future__ import annotations

import random
import struct

import pytest
from vulkan_blob import Kernel, load_module, scale_and_add, seal_blob, write_blob

from tvmbuild.package.runtime.vulkan.plugin import load_plugin

pytestmark = pytest.mark.compiler

GOOD = write_blob(Kernel())


@pytest.fixture(autouse=True, scope="module")
def _loaded() -> None:
    load_plugin()


def change(blob: bytes, place: int, value: int) -> bytes:
    """Put another number there and renew the checksum, so that it does not show the damage."""
    body = bytearray(blob[16:])
    struct.pack_into("<I", body, place, value)
    return seal_blob(bytes(body))


NAME_AT = 4
BUFFERS_AT = NAME_AT + 4 + len("scale_and_add")
WORDS_AT = len(GOOD) - 16 - 4 * (len(scale_and_add()) + 1)


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        (b"", "too short"),
        (GOOD[:19], "too short"),
        (b"tvmbSPV\x02" + GOOD[8:], "not a module of tvmbuild's, or of another version"),
        (GOOD[:-1], "its length"),
        (GOOD + b"\0", "its length"),
        (GOOD[:-1] + b"\1", "its checksum"),
        (write_blob(Kernel(), count=2), "it ends within a name"),
        (write_blob(Kernel(), count=0xFFFFFFFF), "too many kernels"),
        (write_blob(Kernel(), count=0), "bytes follow"),
        (change(GOOD, NAME_AT, 0xFFFFFFF0), "ends within a name"),
        (write_blob(Kernel(name="")), "name is empty or too long"),
        (write_blob(Kernel(name="x" * 256)), "name is empty or too long"),
        (write_blob(Kernel(name="a\nb")), "characters that no name has"),
        (write_blob(Kernel(name="é")), "characters that no name has"),
        (change(GOOD, BUFFERS_AT, 0x7FFFFFFF), "ends within a kernel.s arguments"),
        (write_blob(Kernel(flags=(1, 1, 2))), "unknown flags"),
        (write_blob(Kernel(scalars=(5,))), "unknown kind"),
        (write_blob(Kernel(scalars=(2,) * 17)), "too many scalars"),
        (write_blob(Kernel(extents=13)), "too many extents"),
        (write_blob(Kernel(axes=(1, -1, -1))), "groups name no extent"),
        (write_blob(Kernel(axes=(-2, -1, -1))), "groups name no extent"),
        (write_blob(Kernel(axes=(-1, -2, -1))), "groups name no extent"),
        (write_blob(Kernel(axes=(0, -3, -1))), "groups name no extent"),
        (write_blob(Kernel(local=(0, 1, 1))), "impossible size"),
        (write_blob(Kernel(features=1 << 8)), "unknown features"),
        (change(GOOD, WORDS_AT, 0xFFFFFFFF), "ends within a kernel's code"),
        (write_blob(Kernel(code=(1, 2, 3, 4, 5, 6))), "no SPIR-V"),
        (write_blob(Kernel(code=())), "no SPIR-V"),
        (write_blob(Kernel(), Kernel()), "two kernels are called scale_and_add"),
    ],
)
def test_damage_is_told(blob: bytes, message: str) -> None:
    with pytest.raises(RuntimeError, match=f"^Vulkan: the module is damaged: .*{message}"):
        load_module(blob)


def test_more_buffers_than_the_runtime_takes_are_no_damage() -> None:
    load_module(write_blob(Kernel(flags=(1,) * 64)))
    told = "^Vulkan: kernel scale_and_add has 65 buffers, and this runtime takes 64$"
    with pytest.raises(RuntimeError, match=told):
        load_module(write_blob(Kernel(flags=(1,) * 65)))


def test_any_byte_may_be_wrong() -> None:
    drawn = random.Random(1)  # noqa: S311
    body = GOOD[16:]
    for _ in range(2000):
        damaged = bytearray(body)
        for _ in range(drawn.randrange(1, 4)):
            damaged[drawn.randrange(len(damaged) - 4 * len(scale_and_add()))] = drawn.randrange(256)
        try:
            load_module(seal_blob(bytes(damaged[: drawn.randrange(4, len(damaged) + 1)])))
        except RuntimeError as error:
            told = str(error)
            # Some damage has no effect, and a count may have become too large.
            assert told.startswith("Vulkan: the module is damaged: ") or "this runtime takes 64" in told


def test_a_module_saves_what_it_was_made_of() -> None:
    blob = write_blob(Kernel(), Kernel(name="other"))
    module = load_module(blob)
    assert module.kind == "vulkan"
    assert module.get_property_mask() == 3
    assert module.implements_function("other")
    assert not module.implements_function("missing")
    assert module.get_function("other") is not None
    assert list(module.imports) == []
    assert list(module.get_write_formats()) == []
    with pytest.raises(AttributeError):
        module.get_function("missing")
