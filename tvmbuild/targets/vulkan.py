"""The target kind of GPUs under Vulkan.

It needs a driver, and tvmbuild's code generator and runtime or those of a TVM that was built with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Literal

from tvmbuild.base.attributes import Attributes
from tvmbuild.base.capabilities import Capabilities
from tvmbuild.base.finding import Finding
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.base.vulkan_driver import PLUGIN_REMEDY, VulkanDriver, ask_driver, explain_driver, explain_runtime
from tvmbuild.package.tvm_files import has_vulkan_runtime
from tvmbuild.targets.gpu import Gpu
from tvmbuild.targets.kind import HasFunction, Mistake, Problem
from tvmbuild.targets.vulkan_families import FAMILIES, find_mistakes


class Vulkan(Gpu):
    """The target kind `vulkan`. The driver compiles a package's SPIR-V on the device.

    A software driver computes on this machine's cores, so timing does not free them. Only the loader knows a device and
    its driver, so that `identify` has no answer.
    """

    name = "vulkan"
    pinned = (
        "max_threads_per_block",
        "max_shared_memory_per_block",
        "thread_warp_size",
        "supports_int64",
    )
    families = FAMILIES

    def find_mistakes(self, data: Mapping[str, Any]) -> list[Mistake]:
        """Return a mistake for each attribute that no device has, and for contradictory ones."""
        return find_mistakes(data)

    def explain_precision(self, precision: str, attributes: Attributes) -> Problem | None:
        """Return the fault and the expected value if the target cannot compute in the precision, else None."""
        if precision == "bf16":
            return "TVM has no bfloat16 for vulkan", "fp16 or fp32"
        if precision == "tf32":
            return "TF32 is what NVIDIA's tensor cores multiply, and Vulkan targets do not use them", "fp16 or fp32"
        lacking = [name for name in ("supports_float16", "supports_16bit_buffer") if attributes.get(name) is not True]
        if not lacking:
            return None
        return (
            f"fp16 needs {' and '.join(f'{name}: true' for name in lacking)}",
            "these attributes where the device has them, or fp32",
        )

    def list_tools(self, _attributes: Attributes, capabilities: Capabilities) -> dict[str, str]:
        """Return the origin of the SPIR-V generator, which is the only compiler."""
        return {"vulkan backend": capabilities.vulkan_backend or "absent"}

    def explain_codegen(self, capabilities: Capabilities) -> str | None:
        """Return why no Vulkan code can be generated here, with the remedy, or None if it can be generated."""
        if self.name in capabilities.codegens:
            return None
        packed = (
            f"the runtime that Vulkan code is packed with is not compiled, and no compiler is here; {PLUGIN_REMEDY}"
        )
        return capabilities.vulkan_refusal or packed

    def explain_here(self, _cpu: Attributes, capabilities: Capabilities) -> str | None:
        """Return a message about the missing part, as `explain_vulkan` does."""
        return explain_vulkan(capabilities)

    def find_stand_in(self, capabilities: Capabilities) -> str | None:
        """Return the names of the driver's devices, or None if no Vulkan code runs here.

        Any driver can run the package, because it compiles SPIR-V itself.
        """
        return ", ".join(capabilities.vulkan_devices) if self.explain_here(FrozenMap(), capabilities) is None else None

    def has_codegen(self, has: HasFunction) -> bool:
        """Return whether TVM has a generator, or tvmbuild's own can be used."""
        return super().has_codegen(has) or _has_plugin()

    def has_runtime(self, has: HasFunction) -> bool:
        """Return whether TVM has a runtime, or tvmbuild's own can be used.

        TVM's runtime counts even if it cannot be loaded because the loader is missing.
        """
        return super().has_runtime(has) or (_ask().missing == "loader" and has_vulkan_runtime()) or _has_plugin()

    def answers(self) -> bool:
        """Return whether the runtime accepts a device.

        Without a driver the runtime is not asked, because TVM's own would raise an exception.
        """
        if _ask().missing is not None:
            return False
        if _has_plugin():
            from tvmbuild.package.runtime.vulkan.plugin import load_plugin  # noqa: PLC0415 - as above

            load_plugin()
        return super().answers()

    def probe(self, found: Capabilities) -> Capabilities:
        """Return the capabilities with the loader's answer and the origin of the runtime."""
        others = "tvm" if self.name in found.codegens else None
        driver, backend = _ask(), "tvmbuild" if _has_plugin() else others
        return replace(
            found,
            vulkan_devices=driver.devices,
            vulkan_missing=driver.missing,
            vulkan_refusal=_explain_refusal(found),
            vulkan_backend=backend,
        )

    def explain_absence(self, capabilities: Capabilities) -> str | None:
        """Return a message about the missing part, as `explain_vulkan` does."""
        return explain_vulkan(capabilities)

    def check(self, capabilities: Capabilities) -> Finding:
        """Return the doctor's finding, with the state of generator, runtime and driver.

        A machine that only generates code, without a driver, is not at fault.
        """
        halves = (("the code generator", capabilities.codegens), ("the runtime", capabilities.runtimes))
        lacking = " and ".join(name for name, kinds in halves if self.name not in kinds)
        whole = "TVM's own code generator and runtime"
        if capabilities.vulkan_backend == "tvmbuild":
            whole = "code generator and runtime built in"
        left_out = capabilities.vulkan_refusal if lacking else None
        tvm = f"{lacking} {'left out' if left_out else 'cannot be compiled here'}" if lacking else whole
        missing, names = capabilities.vulkan_missing, ", ".join(capabilities.vulkan_devices)
        driver = f"no Vulkan {missing}" if missing else f"the driver has {names}"
        remedies = [left_out or PLUGIN_REMEDY] if lacking else []
        running = explain_driver(missing) if lacking else explain_vulkan(capabilities)
        remedies += [running] if running else []
        state: Literal["ok", "missing"] = "missing" if lacking else "ok"
        remedy = "\n".join(each[0].upper() + each[1:] + "." for each in remedies)
        return Finding(state, "Vulkan", f"{tvm}; {driver}", remedy)


def explain_vulkan(capabilities: Capabilities) -> str | None:
    """Return a message about what is missing here to run Vulkan code, with the remedy, or None if nothing is.

    It is the runtime, the loader, the driver or a device that the runtime accepts.
    """
    has_runtime, refusal = Vulkan.name in capabilities.runtimes, capabilities.vulkan_refusal
    missing = explain_runtime(capabilities.vulkan_missing, has_runtime=has_runtime, left_out=refusal)
    if missing is None and Vulkan.name not in capabilities.devices:
        if refusal is not None:
            return f"the Vulkan runtime takes no device: {refusal}"
        return f"the Vulkan runtime takes no device of {', '.join(capabilities.vulkan_devices)}; update its driver"
    return missing


def _has_plugin() -> bool:
    """Return whether tvmbuild's own generator and runtime are used. The call imports TVM."""
    from tvmbuild.package.runtime.vulkan.plugin import is_available  # noqa: PLC0415 - planning asks this module too

    return is_available()


def _explain_refusal(found: Capabilities) -> str | None:
    """Return why tvmbuild's own runtime is not used, or accepts no device, or None. The call imports TVM."""
    from tvmbuild.package.runtime.vulkan import plugin  # noqa: PLC0415 - as above

    if Vulkan.name not in found.codegens:
        return plugin.explain_left_out()
    if Vulkan.name in found.devices or _ask().missing is not None or not _has_plugin():
        return None
    plugin.load_plugin()
    return plugin.explain_refusal()


def explain_vulkan_here() -> str | None:
    """Return a message about the missing part (loader, driver or device), or None if a device answers."""
    return explain_driver(_ask().missing)


@cache
def _ask() -> VulkanDriver:
    return ask_driver()
