"""What takes memory on one rank, with a source and a margin for each number."""

from toolkit.planning.memory.planner import kv_memory_bytes, plan_budget, plan_memory

__all__ = ["kv_memory_bytes", "plan_budget", "plan_memory"]
