"""Arms of kv_scales.py with one KV dtype: vLLM on the model; a JSON file says what, and where the records go."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Answer chats if there are any; then let every arm read the token sequences, and leave its records."""
    told = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    from vllm import LLM, SamplingParams

    engine = LLM(
        told["folder"],
        dtype="float16",
        kv_cache_dtype=told["kv_dtype"],
        max_model_len=1024,
        max_num_seqs=max(1, len(told["chats"])),
        max_num_batched_tokens=1024,
        kv_cache_memory_bytes=told["cache_bytes"],
        enable_prefix_caching=False,
        enforce_eager=True,
        seed=0,
        worker_cls="kv_scales_worker.RecordingWorker",
        additional_config={"volta": {"engine": "cpu"}, "route": told["route"]},
    )
    sequences = told["sequences"]
    if told["chats"]:
        sequences = _generated(engine, SamplingParams(temperature=0, max_tokens=told["generate"]), told["chats"])
        Path(told["answer"]).write_text(json.dumps(sequences), encoding="utf-8")
    once = SamplingParams(temperature=0, max_tokens=1)
    for arm in told["arms"]:
        engine.collective_rpc("use_view", args=(arm["folder"], arm["reports"]))
        for tokens in sequences:  # one after the other, so that the records are in this order
            engine.generate([{"prompt_token_ids": tokens}], once, use_tqdm=False)
            engine.collective_rpc("count_codes", args=(len(tokens),))
        engine.collective_rpc("save_records", args=(arm["records"],))


def _generated(engine: Any, sampling: Any, chats: list[str]) -> list[list[int]]:
    """The chats with the model's own answers, as tokens."""
    messages = [[{"role": "user", "content": text}] for text in chats]
    outputs = engine.chat(messages, sampling, use_tqdm=False)
    return [[*output.prompt_token_ids, *output.outputs[0].token_ids] for output in outputs]


if __name__ == "__main__":
    main()
