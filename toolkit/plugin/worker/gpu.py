"""vLLM's worker, with the KV scales of the served folder, a report, and measurements where they are asked for."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from vllm.logger import init_logger
from vllm.v1.worker.gpu_worker import Worker

from toolkit.planning.worker_report import Runtime
from toolkit.plugin.layers import attention_layers
from toolkit.plugin.loader import use_view_loader
from toolkit.plugin.measure import Measuring
from toolkit.plugin.report import make_report, write_data
from toolkit.plugin.reporting import Reporting
from toolkit.plugin.scales import read_scales, set_scales
from toolkit.plugin.settings import Settings, settings_of

logger = init_logger("vllm.volta")


class VoltaWorker(Worker):
    """What engine=v100 runs; its arguments are upstream's."""

    unused_scales: tuple[str, ...] = ()
    measuring: Measuring | None = None
    reporting: Reporting | None = None

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """Load as upstream does, and then the KV scales."""
        if read_scales(self._folder):
            use_view_loader(self.vllm_config.load_config)
        super().load_model(*args, **kwargs)
        self._set_scales()

    def reload_weights(self, *args: Any, **kwargs: Any) -> None:
        """Load again; upstream resets the scales to 1.0 meanwhile."""
        super().reload_weights(*args, **kwargs)
        self._set_scales()

    def compile_or_warm_up_model(self) -> Any:
        """Warm up as upstream does; then this worker is what it will be, and begins to report it."""
        times = super().compile_or_warm_up_model()
        settings = settings_of(self.vllm_config)
        if settings.reports is not None:
            folder = Path(settings.reports).absolute()
            self.reporting = Reporting(partial(self._report, settings, folder))
        if settings.measurements is not None:
            layers, size = attention_layers(self.vllm_config), self.vllm_config.parallel_config.world_size
            self.measuring = Measuring(layers, Path(settings.measurements), rank=self.rank, world_size=size)
        return times

    def execute_model(self, scheduler_output: Any) -> Any:
        """One step, as upstream does it; the first one after a request names those that are finished."""
        if self.reporting is not None and scheduler_output.finished_req_ids:
            idle = not scheduler_output.total_num_scheduled_tokens
            self.reporting.finished(len(scheduler_output.finished_req_ids), idle=idle)
        if self.measuring is not None:
            self.measuring.follow()
        return super().execute_model(scheduler_output)

    def shutdown(self) -> None:
        """End as upstream does, after a last report."""
        if self.reporting is not None:
            self.reporting.end()
            self.reporting = None
        super().shutdown()

    def _runtime(self) -> Runtime:
        """What this worker took on its GPU."""
        from toolkit.plugin.platform.runtime import runtime_of

        return runtime_of(self.vllm_config)

    @property
    def _folder(self) -> Path:
        return Path(self.vllm_config.model_config.model)

    def _set_scales(self) -> None:
        scales = read_scales(self._folder)
        if scales:
            self.unused_scales = set_scales(attention_layers(self.vllm_config), scales)
            logger.info("KV scales: %d of %d reached their layers.", len(scales) - len(self.unused_scales), len(scales))

    def _report(self, settings: Settings, folder: Path, requests: int, ended: bool) -> None:
        size = self.vllm_config.parallel_config.world_size
        report = make_report(
            self.vllm_config,
            settings,
            rank=self.rank,
            world_size=size,
            unused_scales=self.unused_scales,
            requests=requests,
            ended=ended,
            runtime=self._runtime(),
        )
        try:
            write_data(folder, report.file_name, report.to_data())
        except OSError as error:
            logger.warning("The worker's report cannot be written: %s", error)
