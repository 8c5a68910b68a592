from __future__ import annotations

import pytest

from tvmbuild.base.attributes import Attributes, AttributeValue
from tvmbuild.base.frozen_map import FrozenMap
from tvmbuild.compiler.machine.target import is_gpu, list_flags, tvm_target
from tvmbuild.errors import TvmbuildError


def test_cpu_attributes_reach_tvm() -> None:
    attributes: Attributes = FrozenMap(
        {"mattr": ("+neon", "+crc"), "mcpu": "cortex-a72", "mtriple": "aarch64-linux-gnu", "num-cores": 4}
    )
    target = tvm_target("llvm", attributes, FrozenMap())
    assert target.kind.name == "llvm"
    assert not is_gpu(target)
    assert [str(feature) for feature in target.attrs["mattr"]] == ["+neon", "+crc"]
    assert int(target.attrs["num-cores"]) == 4


def test_a_gpu_gets_a_host() -> None:
    limits: Attributes = FrozenMap(
        {"arch": "sm_90", "max_shared_memory_per_block": 49152, "max_threads_per_block": 1024}
    )
    target = tvm_target("cuda", limits, FrozenMap({"mcpu": "x86-64-v3"}))
    assert is_gpu(target)
    assert target.attrs["arch"] == "sm_90"
    assert target.host.kind.name == "llvm"
    assert target.host.attrs["mcpu"] == "x86-64-v3"


@pytest.mark.parametrize(
    ("attributes", "has", "lacks"),
    [
        ({"mcpu": "znver4", "mtriple": "x86_64-linux-gnu"}, {"avx512f", "avx512_vnni", "gfni"}, {"aes", "sha_ni"}),
        ({"mcpu": "znver4", "mtriple": "x86_64-linux-gnu", "mattr": ("-gfni",)}, {"avx512f"}, {"gfni"}),
        ({"mcpu": "sapphirerapids", "mtriple": "x86_64-linux-gnu"}, {"avx512_fp16"}, {"amx_tile"}),
        ({"mcpu": "arrowlake", "mtriple": "x86_64-linux-gnu"}, {"avx_vnni"}, {"avx_ifma", "avx_vnni_int8"}),
        ({"mcpu": "cortex-a76", "mtriple": "aarch64-linux-gnu"}, {"asimd", "asimddp", "asimdhp"}, {"i8mm", "sha2"}),
        ({"mcpu": "cortex-a72", "mtriple": "aarch64-linux-gnu"}, {"asimd"}, {"asimddp", "aes", "sha2", "crc32"}),
    ],
)
def test_the_code_needs_the_instruction_sets_of_its_cpu_but_those_that_boards_and_virtual_machines_lack(
    attributes: dict[str, AttributeValue], has: set[str], lacks: set[str]
) -> None:
    found = list_flags(tvm_target("llvm", FrozenMap(attributes), FrozenMap()))
    assert found is not None
    assert has <= set(found)
    assert not lacks & set(found)


def test_the_instruction_sets_of_other_machines_are_not_known() -> None:
    riscv: Attributes = FrozenMap({"mcpu": "generic-rv64", "mtriple": "riscv64-linux-gnu"})
    assert list_flags(tvm_target("llvm", riscv, FrozenMap())) is None


@pytest.mark.parametrize(
    ("kind", "attributes"), [("llvm", {"mcp": "x86-64-v3"}), ("nonsense", {}), ("llvm", {"num-cores": "two"})]
)
def test_what_tvm_refuses_is_an_error_for_the_user(kind: str, attributes: dict[str, str]) -> None:
    with pytest.raises(TvmbuildError, match="TVM refuses the target") as caught:
        tvm_target(kind, FrozenMap(attributes), FrozenMap())
    assert caught.value.hint == "check the target's attributes in targets.yaml"


@pytest.mark.parametrize(
    ("attributes", "message", "hint"),
    [
        ({"mcpu": "x86-64-v9"}, "LLVM knows no CPU x86-64-v9 for x86_64-linux-gnu", "did you mean x86-64-v"),
        ({"mcpu": "x86-64-v3", "mattr": ("+avx9000",)}, "LLVM knows no feature +avx9000", "correct `mattr`"),
    ],
)
def test_a_cpu_that_llvm_would_replace_by_generic_is_refused(
    attributes: dict[str, AttributeValue], message: str, hint: str
) -> None:
    with pytest.raises(TvmbuildError) as caught:
        tvm_target("llvm", FrozenMap({**attributes, "mtriple": "x86_64-linux-gnu"}), FrozenMap())
    assert caught.value.message.startswith(message)
    assert str(caught.value.hint).startswith(hint)
