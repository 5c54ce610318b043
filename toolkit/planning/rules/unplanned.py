"""Rules about arguments that the engine ends with, or that make another server of it than was planned."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from toolkit.config.schema.engine import EngineName
from toolkit.counted import counted
from toolkit.planning.engine_arguments import NAMES, canonical, is_argument
from toolkit.planning.extra_arguments import given, value_of
from toolkit.planning.plan import ANSWER_TOKENS, Severity
from toolkit.planning.rules.rule import Context, Problem, Rule, no_shapes

WHERE = "engine.extra_arguments"
WHOLE_PROMPTS = "--no-enable-chunked-prefill"
REPLICAS = ("--data-parallel-size", "-dp")
STAGES = ("--pipeline-parallel-size", "-pp")
FORMAT = ("--quantization", "-q")
QUANTISED_BESIDE = "hf_quant_config.json"
"""Where ModelOpt writes what other tools write into config.json."""
SLEEP, LOGPROBS = "--enable-sleep-mode", "--logprobs-mode"
SERVERLESS = ("--help", "-h", "--headless", "--grpc")
"""With these, the engine starts no HTTP server at all."""
ENCRYPTED = ("--ssl-keyfile", "--ssl-certfile")
TOKENIZER = "--tokenizer-mode"
TOKENIZERS = (
    "auto", "cohere", "deepseek_v32", "deepseek_v4", "deepseek_v41", "hf", "inkling", "kimi_audio", "kimi_k3",
    "mistral",
)  # fmt: skip
OTHER_TASKS = {"--runner": ("auto", "generate"), "--convert": ("auto", "none")}
"""What these arguments may say of a server that answers chats."""


def argument_unknown(context: Context) -> Iterator[Problem]:
    """The engine's parser ends at a name that it does not have."""
    engine = context.config.engine
    for word in engine.extra_arguments:
        if is_argument(word) and canonical(word) is None:
            name = word.partition("=")[0]
            close = next(iter(difflib.get_close_matches(name.removeprefix("--"), sorted(NAMES))), None)
            meant = f"leave {name} out" if close is None else f"did you mean --{close}?"
            yield Problem(WHERE, f"vLLM {engine.version} has no argument {name}", meant)


def prompts_in_one_step(context: Context) -> Iterator[Problem]:
    """Without chunks, the longest request has to fit into one step."""
    limits = context.config.limits
    whole = given(context.config.engine.extra_arguments, WHOLE_PROMPTS)
    if whole and limits.max_num_batched_tokens < limits.max_model_len:
        yield Problem(
            "limits.max_num_batched_tokens",
            f"{limits.max_num_batched_tokens:,} tokens a step hold no prompt of {limits.max_model_len:,}, and "
            f"{WHOLE_PROMPTS} allows no chunks",
            f"use limits.max_num_batched_tokens={limits.max_model_len}, or leave {WHOLE_PROMPTS} out",
        )


def replicas_unplanned(context: Context) -> Iterator[Problem]:
    """Plan, reports and receipt are of one engine; a second one would answer unseen."""
    count = value_of(context.config.engine.extra_arguments, *REPLICAS)
    if count not in (None, "1"):
        yield Problem(
            WHERE,
            f"{count} replicas would be started, and the plan is made for one",
            f"leave {REPLICAS[0]} out, and serve each replica by itself, on a port of its own",
        )


def stages_on_cpu(context: Context) -> Iterator[Problem]:
    """The CPU engine's last stage fails at the first request."""
    engine = context.config.engine
    count = value_of(engine.extra_arguments, *STAGES)
    if engine.name is EngineName.cpu and count not in (None, "1"):
        yield Problem(
            WHERE,
            f"the CPU engine does not answer with {count} pipeline stages",
            f"leave {STAGES[0]} out, or use limits.tensor_parallel",
        )


def quantised_at_start(context: Context) -> Iterator[Problem]:
    """Weights that are quantised while they are loaded need products that these engines do not have."""
    engine, geometry = context.config.engine, context.geometry
    asked = value_of(engine.extra_arguments, *FORMAT)
    if asked is None:
        return
    if geometry is None:
        yield no_shapes()
    elif geometry.quantization.container == "none" and QUANTISED_BESIDE not in context.checkpoint.files:
        yield Problem(
            WHERE,
            f"engine={engine.name.value} cannot quantise weights to {asked} at its start",
            f"leave {FORMAT[0]} out, and choose a checkpoint that is stored as it is to be served",
        )


def no_chat_server(context: Context) -> Iterator[Problem]:
    """A server of embeddings or scores has no chat to prove itself with."""
    for name, fitting in OTHER_TASKS.items():
        asked = value_of(context.config.engine.extra_arguments, name)
        if asked is not None and asked not in fitting:
            yield Problem(WHERE, f"{name}={asked} makes a server that answers no chat", f"leave {name} out")


def proof_prevented(context: Context) -> Iterator[Problem]:
    """Serve asks a question over plain HTTP, and looks at the log-probabilities of the answer."""
    arguments, longest = context.config.engine.extra_arguments, context.config.limits.max_model_len
    if 0 < longest <= ANSWER_TOKENS:
        yield Problem(
            "limits.max_model_len",
            f"{counted(longest, 'token')} of context hold no question beside the {ANSWER_TOKENS} tokens of its answer",
            f"use limits.max_model_len={2 * ANSWER_TOKENS} or more",
        )
    mode = value_of(arguments, LOGPROBS)
    if mode is not None and not mode.endswith("logprobs"):
        yield Problem(
            WHERE,
            f"{LOGPROBS}={mode} gives no log-probabilities, by which serve tells an answer from noise",
            f"leave {LOGPROBS} out",
        )
    for name in SERVERLESS:
        if given(arguments, name):
            yield Problem(WHERE, f"{name} starts no server that answers over HTTP", f"leave {name} out")
    if given(arguments, *ENCRYPTED):
        yield Problem(
            WHERE,
            "serve asks its server over plain HTTP",
            "leave --ssl-... out, and put a proxy in front of the server",
        )


def sleep_on_cpu(context: Context) -> Iterator[Problem]:
    """The CPU engine's platform has no sleep mode."""
    engine = context.config.engine
    if engine.name is EngineName.cpu and given(engine.extra_arguments, SLEEP):
        yield Problem(WHERE, f"the CPU engine ends at its start with {SLEEP}", f"leave {SLEEP} out")


def tokenizer_unknown(context: Context) -> Iterator[Problem]:
    """The engine has a few ways of reading a tokenizer's files, and other releases had others."""
    asked = value_of(context.config.engine.extra_arguments, TOKENIZER)
    if asked is not None and asked not in TOKENIZERS:
        yield Problem(
            WHERE,
            f"vLLM {context.config.engine.version} has no {TOKENIZER}={asked}",
            f"use {' or '.join(TOKENIZERS)}, or leave it out",
        )


RULES = (
    Rule("proof-prevented", "The server can prove itself", Severity.refuse, proof_prevented, "docs/serve.md"),
    Rule(
        "sleep-on-cpu",
        "Sleep mode is asked of GPUs alone",
        Severity.refuse,
        sleep_on_cpu,
        "vLLM 0.32 config/model.py: enable_sleep_mode",
    ),
    Rule(
        "tokenizer-unknown",
        "The engine knows the tokenizer's mode",
        Severity.refuse,
        tokenizer_unknown,
        "vLLM 0.32 tokenizers/registry.py: _VLLM_TOKENIZERS",
    ),
    Rule(
        "argument-unknown",
        "The engine knows every argument",
        Severity.refuse,
        argument_unknown,
        "vLLM 0.32 entrypoints/launchers/cli_args.py: make_arg_parser",
    ),
    Rule(
        "prompts-in-one-step",
        "A step holds a prompt that may not be cut",
        Severity.refuse,
        prompts_in_one_step,
        "vLLM 0.32 config/scheduler.py: verify_max_model_len",
    ),
    Rule("replicas-unplanned", "One engine is started", Severity.refuse, replicas_unplanned, "docs/serve.md"),
    Rule(
        "stages-on-cpu",
        "The CPU engine has one pipeline stage",
        Severity.refuse,
        stages_on_cpu,
        "vLLM 0.32 v1/worker/cpu_worker.py",
    ),
    Rule(
        "quantised-at-start",
        "Weights are served as they are stored",
        Severity.refuse,
        quantised_at_start,
        "vLLM documentation, page 'Supported Hardware' of quantization",
    ),
    Rule(
        "no-chat-server",
        "The server answers chats",
        Severity.refuse,
        no_chat_server,
        "vLLM 0.32 config/model.py: runner",
    ),
)
