"""The worker classes that the plan names with `--worker-cls`: vLLM's own, and what ours do before and after."""
