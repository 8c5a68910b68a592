"""Several devices: their order, the choice of one, kernels on each of them, and copies from one to another."""

from __future__ import annotations

import pytest
from children import run_child
from vulkan_reruns import LAYER, NEEDS_LAYER, list_layer_errors
from vulkan_shim import shim_environment

pytestmark = pytest.mark.vulkan

MACHINE = "llvmpipe:cpu,Virtio:virtual,Iris Xe:integrated,GTX 1650:discrete,Odd:other,RTX 4090:discrete"
NAMES = "from vulkan_child import *\nprint(*(device['name'] for device in describe_devices()), sep=', ')"
REASON = "from vulkan_child import *\nprint(catch(describe_devices))"


@pytest.mark.parametrize(
    ("devices", "order"),
    [
        (MACHINE, "GTX 1650, RTX 4090, Iris Xe, Virtio, Odd"),
        ("llvmpipe:cpu,Iris Xe:integrated", "Iris Xe"),
        ("llvmpipe:cpu,SwiftShader:cpu", "llvmpipe, SwiftShader"),
    ],
)
def test_their_order(devices: str, order: str) -> None:
    assert run_child(NAMES, shim_environment(devices=devices)) == order


@pytest.mark.parametrize(
    ("wish", "name"),
    [
        ("0", "GTX 1650"),
        ("1", "RTX 4090"),
        ("5", "llvmpipe"),
        ("4090", "RTX 4090"),
        ("rtx", "RTX 4090"),
        ("iris xe", "Iris Xe"),
        ("", "GTX 1650, RTX 4090, Iris Xe, Virtio, Odd"),
    ],
)
def test_one_is_chosen(wish: str, name: str) -> None:
    environment = shim_environment(devices=MACHINE)
    assert run_child(NAMES, {**environment, "TVMBUILD_VULKAN_DEVICE": wish}) == name


def test_a_whole_name_goes_before_a_part_of_one() -> None:
    environment = shim_environment(devices="Arc A770:discrete,Arc:integrated")
    assert run_child(NAMES, {**environment, "TVMBUILD_VULKAN_DEVICE": "arc"}) == "Arc"


@pytest.mark.parametrize("wish", ["2", "-1", "Voodoo"])
def test_a_choice_that_there_is_not(wish: str) -> None:
    environment = shim_environment(devices="Arc 2:integrated,llvmpipe:cpu")
    told = run_child(REASON, {**environment, "TVMBUILD_VULKAN_DEVICE": wish})
    assert told == f"Vulkan: TVMBUILD_VULKAN_DEVICE={wish} names no device; there are 0 Arc 2, 1 llvmpipe"


def test_an_unknown_word_for_a_feature_is_refused() -> None:
    environment = {**shim_environment(), "TVMBUILD_VULKAN_WITHOUT": "timestamps,,shaderFloat16,floats"}
    told = run_child(REASON, environment)
    assert told.startswith("Vulkan: TVMBUILD_VULKAN_WITHOUT does not know floats; allowed: unified_memory, push_desc")
    assert told.endswith(", shaderIntegerDotProduct")


COMPUTE = """
from concurrent.futures import ThreadPoolExecutor
from vulkan_child import *
compute = ScaleAndAdd()
def infer(index):
    launch_on(index)
    values = np.arange(640, dtype="float32") + index
    a, out = upload(values, device=index), empty(640, index)
    for turn in range(30):
        upload(values + turn, a)
        compute(a, a, out, 3.0)
        if not np.array_equal(download(out), 4 * (values + turn)):
            return False
    return True
with ThreadPoolExecutor(4) as pool:
    print(all(pool.map(infer, [0, 1] * 8)), infer(1), infer(0))
"""
PAIRS = ["A:integrated,B:integrated", "A:discrete,B:discrete", "A:discrete,B:integrated"]


@pytest.mark.parametrize("pair", PAIRS)
def test_kernels_of_one_module_run_on_both(pair: str) -> None:
    assert run_child(COMPUTE, shim_environment(devices=pair)) == "True True True"


@NEEDS_LAYER
def test_no_call_is_wrong_on_two() -> None:
    told = run_child(COMPUTE, {**shim_environment(devices=PAIRS[2]), **LAYER})
    assert told.splitlines()[-1] == "True True True"
    assert not list_layer_errors(told)


@pytest.mark.parametrize("pair", PAIRS)
def test_copies_from_one_to_the_other(pair: str) -> None:
    code = """
from vulkan_child import *
compute = ScaleAndAdd()
for count in (64, (16 << 20) // 4, (40 << 20) // 4 + 32):
    values = np.arange(count, dtype="float32")
    first, second, back = upload(values), empty(count, 1), empty(count)
    launch_on(0)
    compute.function(address(first), address(first), address(first), 1.0, 2)
    call("runtime.TVMTensorCopyFromTo", first, second)
    launch_on(1)
    compute.function(address(second), address(second), address(second), 1.0, 2)
    call("runtime.TVMTensorCopyFromTo", second, back)
    values[:64] *= 4
    print(np.array_equal(download(back), values), np.array_equal(download(second), values))
"""
    assert run_child(code, shim_environment(devices=pair)).split() == ["True"] * 6


def test_memory_of_one_is_none_of_the_others() -> None:
    code = """
from vulkan_child import *
a = upload(np.ones(64, "float32"))
launch_on(1)
print(catch(lambda: ScaleAndAdd()(a, a, a)))
"""
    told = run_child(code, shim_environment(devices=PAIRS[0]))
    assert told == "Vulkan: buffer 0 of kernel scale_and_add lies in no memory of B"
