"""The same for engine=cpu."""

from __future__ import annotations

from vllm.v1.worker.cpu_worker import CPUWorker

from toolkit.planning.worker_report import Runtime
from toolkit.plugin.runtime import cpu_runtime
from toolkit.plugin.worker.gpu import VoltaWorker


class VoltaCpuWorker(VoltaWorker, CPUWorker):
    """What engine=cpu runs: VoltaWorker's additions around vLLM's CPU worker."""

    def _runtime(self) -> Runtime:
        """What this worker took on its CPU."""
        return cpu_runtime(self.vllm_config)
