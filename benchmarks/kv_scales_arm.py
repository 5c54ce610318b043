"""One arm of kv_scales.py: vLLM on a folder with a KV dtype; JSON on stdin says what and where the answer goes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Generate (first arm) or score token sequences, and leave the records."""
    told = json.load(sys.stdin)
    from vllm import LLM, SamplingParams

    engine = LLM(
        told["folder"],
        dtype="float16",
        kv_cache_dtype=told["kv_dtype"],
        max_model_len=1024,
        max_num_seqs=told["num_seqs"],
        max_num_batched_tokens=1024,
        kv_cache_memory_bytes=told["cache_bytes"],
        enable_prefix_caching=False,
        enforce_eager=True,
        seed=0,
        worker_cls="kv_scales_worker.RecordingWorker",
        additional_config={"volta": {"engine": "cpu", "reports": told["reports"]}, "route": told["route"]},
    )
    if told["chats"]:
        answer: Any = _generated(engine, SamplingParams(temperature=0, max_tokens=told["generate"]), told["chats"])
    else:
        for tokens in told["sequences"]:  # one after the other, so that the records are in this order
            engine.generate([{"prompt_token_ids": tokens}], SamplingParams(temperature=0, max_tokens=1), use_tqdm=False)
            engine.collective_rpc("count_codes", args=(len(tokens),))
        engine.collective_rpc("save_records", args=(told["records"],))
        answer = None
    Path(told["answer"]).write_text(json.dumps(answer), encoding="utf-8")


def _generated(engine: Any, sampling: Any, chats: list[str]) -> list[list[int]]:
    """The chats with the model's own answers, as tokens."""
    messages = [[{"role": "user", "content": text}] for text in chats]
    outputs = engine.chat(messages, sampling, use_tqdm=False)
    return [[*output.prompt_token_ids, *output.outputs[0].token_ids] for output in outputs]


if __name__ == "__main__":
    main()
