"""The route of a cache dtype, and that planning can ask for it without vLLM or torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

from toolkit.planning.attention_routes import (
    AMX_FLAG,
    AVX512_FLAGS,
    FP8_DTYPES,
    UPSTREAM,
    VOLTA_CPU_FP8,
    VOLTA_CPU_WRITE,
    describe,
    route,
)

AVX2 = frozenset({"sse4_2", "avx", "avx2", "fma"})


@pytest.mark.parametrize("dtype", sorted(FP8_DTYPES))
def test_fp8_without_avx512_is_ours(dtype):
    assert route(dtype, AVX2) == VOLTA_CPU_FP8
    assert route(dtype, frozenset()) == VOLTA_CPU_FP8


@pytest.mark.parametrize("dtype", sorted(FP8_DTYPES))
@pytest.mark.parametrize("flags", [AVX512_FLAGS, frozenset({AMX_FLAG}), AVX512_FLAGS | {AMX_FLAG}])
def test_fp8_with_avx512_or_amx_is_upstreams_but_for_the_write(dtype, flags):
    assert route(dtype, AVX2 | flags) == VOLTA_CPU_WRITE


@pytest.mark.parametrize("missing", sorted(AVX512_FLAGS))
def test_a_part_of_avx512_is_not_enough(missing):
    assert route("fp8_e4m3", AVX2 | (AVX512_FLAGS - {missing})) == VOLTA_CPU_FP8


@pytest.mark.parametrize("dtype", ["auto", "float16", "bfloat16"])
@pytest.mark.parametrize("flags", [frozenset(), AVX2, AVX512_FLAGS])
def test_other_dtypes_are_upstreams(dtype, flags):
    assert route(dtype, flags) == UPSTREAM


def test_words_for_a_plan():
    assert describe("auto", AVX2) == "upstream (C++)"
    assert describe("fp8_e4m3", AVX512_FLAGS) == (
        "volta_cpu_write (C++), because vLLM's own cache write rounds towards zero"
    )
    assert describe("fp8_e4m3", AVX2) == (
        "volta_cpu_fp8 (torch), because this CPU lacks AVX-512 and AMX, which vLLM needs for an FP8 cache"
    )


def test_importing_it_brings_no_engine():
    code = (
        "import sys, toolkit.planning.attention_routes; print(sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    modules = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "'toolkit'" in modules
    assert "'torch'" not in modules
    assert "'vllm'" not in modules
