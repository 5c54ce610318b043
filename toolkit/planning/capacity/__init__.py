"""How many tokens and requests the KV cache holds, to the token."""

from toolkit.planning.capacity.planner import for_concurrency, for_tokens, plan_capacity, plan_pool, with_memory

__all__ = ["for_concurrency", "for_tokens", "plan_capacity", "plan_pool", "with_memory"]
