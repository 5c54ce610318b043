"""What takes memory on one rank, with a source and a margin for each number."""

from toolkit.planning.memory.planner import plan_budget

__all__ = ["plan_budget"]
