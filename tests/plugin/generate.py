"""A program for test_engine.py: runs vLLM's LLM on prompts, and writes what it generated to a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    from vllm import LLM, SamplingParams

    model, dtype, prompts, target = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), Path(sys.argv[4])
    engine = LLM(
        model,
        dtype="float32",  # see test_engine.py
        kv_cache_dtype=dtype,
        max_model_len=1024,
        max_num_seqs=4,
        max_num_batched_tokens=64,  # so that a prompt of more tokens is prefilled in chunks
        kv_cache_memory_bytes=64 << 20,
        enable_prefix_caching=True,
        enforce_eager=True,
    )
    sampling = SamplingParams(temperature=0, max_tokens=12, logprobs=5)
    rounds = []
    for _ in range(2):  # the second round finds the first one's blocks in the prefix cache
        outputs = engine.generate([{"prompt_token_ids": tokens} for tokens in prompts], sampling, use_tqdm=False)
        rounds.append(
            [
                {
                    "tokens": list(output.outputs[0].token_ids),
                    "logprobs": [step[token].logprob for step, token in _chosen(output.outputs[0])],
                    "cached": output.num_cached_tokens,
                }
                for output in outputs
            ]
        )
    target.write_text(json.dumps(rounds), encoding="utf-8")


def _chosen(completion):
    return zip(completion.logprobs, completion.token_ids, strict=True)


if __name__ == "__main__":
    main()
