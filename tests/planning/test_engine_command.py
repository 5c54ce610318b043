"""The engine's command line and environment: what each option becomes, and that the real engine reads it so."""

import json
import os
import shlex
import subprocess
import sys

import cases
import pytest

from toolkit.config.schema.engine import EngineName
from toolkit.display.plan_text import by_option
from toolkit.planning.command import SERVER_MODULE, engine_command
from toolkit.planning.kv_memory import kv_cache_memory_bytes
from toolkit.planning.make import make_plan
from toolkit.planning.switch_values import settle

SWITCHES = {"decode_xqa": True}


def command(config, switches=SWITCHES):
    return engine_command(config, "/models/model", "/engine/bin/python", switches)


def option(argv: tuple[str, ...], name: str) -> str:
    assert argv.count(name) == 1, name
    return argv[argv.index(name) + 1]


def test_it_is_the_engines_own_server_by_the_planned_interpreter():
    assert command(cases.config()).argv[:3] == ("/engine/bin/python", "-m", SERVER_MODULE)


@pytest.mark.parametrize(
    ("changes", "name", "value"),
    [
        ({}, "--model", "/models/model"),
        ({"checkpoint__name": "mine"}, "--served-model-name", "mine"),
        ({"server__host": "::1"}, "--host", "::1"),
        ({"server__port": 81}, "--port", "81"),
        ({"engine__dtype": "bfloat16"}, "--dtype", "bfloat16"),
        ({"kv__dtype": "fp8_e5m2"}, "--kv-cache-dtype", "fp8_e5m2"),
        ({"kv__dtype": "float16", "engine__dtype": "float16"}, "--kv-cache-dtype", "auto"),
        ({"limits__max_model_len": 77}, "--max-model-len", "77"),
        ({"limits__max_num_seqs": 3}, "--max-num-seqs", "3"),
        ({"limits__max_num_batched_tokens": 99}, "--max-num-batched-tokens", "99"),
        ({"limits__kv_cache_memory_bytes": 12345}, "--kv-cache-memory-bytes", "12345"),
        ({}, "--kv-cache-memory-bytes", str(2**30)),
        ({"engine__name": EngineName.v100, "limits__gpu_memory_utilization": 0.5}, "--gpu-memory-utilization", "0.5"),
        ({"limits__block_size": 64}, "--block-size", "64"),
        ({"limits__tensor_parallel": 4}, "--tensor-parallel-size", "4"),
        ({"dcp__size": 2}, "--decode-context-parallel-size", "2"),
        ({"dcp__size": 2, "dcp__interleave": 8}, "--dcp-kv-cache-interleave-size", "8"),
    ],
)
def test_what_an_option_becomes(changes, name, value):
    assert option(command(cases.config(**changes)).argv, name) == value


@pytest.mark.parametrize(
    ("changes", "present", "absent"),
    [
        ({"limits__prefix_caching": True}, "--enable-prefix-caching", "--no-enable-prefix-caching"),
        ({"limits__prefix_caching": False}, "--no-enable-prefix-caching", "--enable-prefix-caching"),
        ({"engine__compile": False}, "--enforce-eager", "--block-size"),
        ({"engine__compile": True}, "--seed", "--enforce-eager"),
        ({"limits__kv_cache_memory_bytes": 1}, "--kv-cache-memory-bytes", "--gpu-memory-utilization"),
        ({"engine__name": EngineName.v100}, "--gpu-memory-utilization", "--kv-cache-memory-bytes"),
        ({}, "--model", "--tensor-parallel-size"),
        ({}, "--model", "--decode-context-parallel-size"),
        ({}, "--model", "--speculative-config"),
    ],
)
def test_what_is_there_and_what_is_not(changes, present, absent):
    argv = command(cases.config(**changes)).argv
    assert present in argv
    assert absent not in argv


def test_a_gpus_share_is_told_also_where_the_caches_bytes_are():
    """vLLM asks for it to be free in both cases, and its own default is another one than ours."""
    argv = command(cases.on_v100(limits__kv_cache_memory_bytes=1, limits__gpu_memory_utilization=0.25)).argv
    assert option(argv, "--kv-cache-memory-bytes") == "1"
    assert option(argv, "--gpu-memory-utilization") == "0.25"


@pytest.mark.parametrize(
    ("changes", "settings"),
    [
        ({"method": "mtp", "tokens": 3}, {"method": "mtp", "num_speculative_tokens": 3}),
        ({"method": "ngram", "tokens": 2}, {"method": "ngram", "num_speculative_tokens": 2}),
        (
            {"method": "draft_model", "tokens": 3, "draft_path": "/d"},
            {"method": "draft_model", "num_speculative_tokens": 3, "model": "/d"},
        ),
        (
            {"method": "dflash2", "tokens": 7, "draft_repository": "a/b", "draft_revision": "f" * 40},
            {"method": "dflash", "num_speculative_tokens": 7, "model": "a/b", "revision": "f" * 40},
        ),
        (
            {"method": "dflash2", "tokens": 7, "draft_repository": "a/b", "draft_revision": "f", "draft_path": "/d"},
            {"method": "dflash", "num_speculative_tokens": 7, "model": "/d"},
        ),
    ],
)
def test_drafting(changes, settings):
    config = cases.config(**{f"speculative__{name}": value for name, value in changes.items()})
    assert json.loads(option(command(config).argv, "--speculative-config")) == settings


def test_the_plugin_is_told_the_engine_and_every_switch_in_one_object():
    config = cases.on_v100()
    switches = {switch.name: switch.value for switch in settle(config, {})}
    told = json.loads(option(command(config, switches).argv, "--additional-config"))
    assert told["volta"]["engine"] == "v100"
    assert told["volta"]["switches"] == switches


@pytest.mark.parametrize(("any_gpu", "demand"), [(False, "v100"), (True, "v100_on_any_gpu")])
def test_the_platform_is_demanded_before_vllm_has_a_configuration(any_gpu, demand):
    assert command(cases.on_v100(engine__prove_on_any_gpu=any_gpu)).env["VOLTA_PLATFORM"] == demand
    assert "VOLTA_PLATFORM" not in command(cases.config()).env


def test_an_eager_engine_needs_no_compiler():
    assert command(cases.config(engine__compile=False)).env["TORCHDYNAMO_DISABLE"] == "1"
    assert "TORCHDYNAMO_DISABLE" not in command(cases.config(engine__compile=True)).env


def test_extra_arguments_come_last_as_they_are():
    argv = command(cases.config(engine__extra_arguments=["--foo", "a b"])).argv
    assert argv[-2:] == ("--foo", "a b")


def test_the_environment_is_the_engines_then_the_users():
    env = command(cases.config(engine__environment={"VLLM_HOST_IP": "::1", "X": "1"})).env
    assert env == {
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONNOUSERSITE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "VLLM_HOST_IP": "::1",
        "VLLM_TARGET_DEVICE": "cpu",
        "TORCHDYNAMO_DISABLE": "1",
        "X": "1",
    }
    assert command(cases.on_v100()).env["VLLM_USE_FLASHINFER_SAMPLER"] == "0"
    assert "VLLM_TARGET_DEVICE" not in command(cases.on_v100()).env


def test_the_line_for_pasting_is_the_argv_again():
    argv = command(cases.config(engine__extra_arguments=["--x", 'it\'s; $HOME `a` \\ "b"'])).argv
    assert tuple(shlex.split(by_option(argv).replace("\\\n", ""))) == argv


PARSE = """
import json, sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.utils.argparse_utils import FlexibleArgumentParser
parsed = []
for argv in json.load(sys.stdin):
    args = make_arg_parser(FlexibleArgumentParser()).parse_args(argv)
    validate_parsed_serve_args(args)
    plain = (int, float, str, bool, dict, list)
    parsed.append({name: value for name, value in vars(args).items() if isinstance(value, plain)})
print("PARSED" + json.dumps(parsed))
"""


def test_the_real_engine_reads_the_command_line_as_it_was_meant():
    full = {
        "limits__block_size": 64,
        "limits__prefix_caching": False,
        "kv__dtype": "fp8_e4m3",
        "speculative__method": "mtp",
        "speculative__tokens": 3,
    }
    configs = [
        cases.config(limits__kv_cache_memory_bytes=2**28),
        cases.config(kv__dtype="fp8_e5m2", server__host="::1", engine__dtype="bfloat16"),
        cases.on_v100(dcp__size=2, engine__compile=True, **full),
    ]
    plans = [make_plan(config, "", cases.facts(), cases.gpu_machine()) for config in configs]
    result = subprocess.run(
        [sys.executable, "-c", PARSE],
        input=json.dumps([plan.argv[3:] for plan in plans]),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env={**os.environ, **plans[0].env},
    )
    line = next((line for line in result.stdout.splitlines() if line.startswith("PARSED")), None)
    assert line is not None, result.stderr
    parsed = json.loads(line.removeprefix("PARSED"))
    for config, read in zip(configs, parsed, strict=True):
        limits = config.limits
        assert read["model"] == "/models/model"
        assert read["served_model_name"] == [config.checkpoint.name]
        assert (read["host"], read["port"]) == (config.server.host, config.server.port)
        assert (read["dtype"], read["max_model_len"]) == (config.engine.dtype, limits.max_model_len)
        assert read["max_num_seqs"] == limits.max_num_seqs
        assert read["max_num_batched_tokens"] == limits.max_num_batched_tokens
        assert read["tensor_parallel_size"] == limits.tensor_parallel
        assert read["decode_context_parallel_size"] == config.dcp.size
        assert read["enable_prefix_caching"] is limits.prefix_caching
        assert read["enforce_eager"] is not config.engine.compile
        assert read.get("kv_cache_memory_bytes") == kv_cache_memory_bytes(config)
        assert read.get("block_size") == limits.block_size
        assert read["additional_config"]["volta"]["engine"] == config.engine.name.value
    assert [read["kv_cache_dtype"] for read in parsed] == ["auto", "fp8_e5m2", "fp8_e4m3"]
    assert parsed[2]["speculative_config"] == {"method": "mtp", "num_speculative_tokens": 3}


class TestSwitches:
    def values(self, config, **environment: str) -> dict[str, tuple[bool, str]]:
        return {switch.name: (switch.value, switch.source) for switch in settle(config, environment)}

    def test_an_explicit_value_wins_over_the_shell_and_the_shell_over_the_rule(self):
        alias = "VLLM_FLASH_V100_DECODE_USE_XQA"
        config = cases.on_v100()
        assert self.values(config)["decode_xqa"] == (True, "default")
        assert self.values(config, **{alias: "0"})["decode_xqa"] == (False, "environment")
        assert self.values(cases.on_v100(switches__decode_xqa=True), **{alias: "0"})["decode_xqa"] == (True, "explicit")
        assert self.values(config, **{alias: "maybe"})["decode_xqa"] == (True, "default")

    def test_default_rules(self):
        e4m3 = {name for name, (on, _) in self.values(cases.on_v100(kv__dtype="fp8_e4m3")).items() if on}
        plain = {name for name, (on, _) in self.values(cases.on_v100()).items() if on}
        drafts = {name for name, (on, _) in self.values(cases.on_v100(speculative__method="dflash2")).items() if on}
        assert plain == {"prefill_gqa", "prefill_split_kv", "decode_xqa"}
        assert e4m3 - plain == {"e4m3_batch_xqa", "e4m3_scalar_fast", "e4m3_grouped_fp32", "e4m3_long_attention"}
        assert drafts - plain == {
            "grouped_verify",
            "nvfp4_qpn2",
            "nvfp4_qpn2_prefill",
            "fp8_qpn8",
            "dflash2_qpn8_rerank",
        }
        assert not any(on for on, _ in self.values(cases.config(kv__dtype="fp8_e4m3")).values())

    def test_each_says_why(self):
        for engine in EngineName:
            for switch in settle(cases.config(engine__name=engine), {}):
                assert switch.reason
                assert switch.alias.startswith("VLLM_")
