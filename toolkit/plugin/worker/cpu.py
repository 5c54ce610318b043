"""The same for engine=cpu."""

from __future__ import annotations

from vllm.v1.worker.cpu_worker import CPUWorker

from toolkit.plugin.worker.gpu import VoltaWorker


class VoltaCpuWorker(VoltaWorker, CPUWorker):
    """What engine=cpu runs: VoltaWorker's additions around vLLM's CPU worker."""

    def _runtime(self) -> None:
        """Nothing: there is no GPU."""
