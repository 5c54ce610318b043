"""What `plan` found, in each of its forms: text, JSON, and a page of HTML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolkit.config.schema.verbs import DeploymentConfig
from toolkit.config.search_path import shipped_conf
from toolkit.display import compare_text, fit_text
from toolkit.display.page import laid_out
from toolkit.display.plain import visible
from toolkit.display.plan_text import render
from toolkit.planning.compare import Comparison
from toolkit.planning.fit import Fit
from toolkit.planning.plan import Plan


@dataclass(frozen=True)
class PlanResult:
    """A plan, and what was asked of it besides."""

    plan: Plan
    origins: Mapping[str, str]
    """By dotted key."""
    values: Mapping[str, Any]
    """The configuration as nested plain data."""
    fit: Fit | None = None
    comparison: Comparison | None = None

    def text(self) -> str:
        """For a terminal; beside another plan, only what differs."""
        if self.comparison is not None:
            said = visible(compare_text.render(self.comparison))
        else:
            said = laid_out(render(self.plan, self.origins, self.values, shipped_conf()))
        return said if self.fit is None else f"{said}\n\n{visible(fit_text.render(self.fit))}"

    def to_json(self) -> dict[str, Any]:
        """The one document."""
        asked = {"comparison": self.comparison, "fit": self.fit}
        besides = {name: part.to_json() for name, part in asked.items() if part is not None}
        return {**self.plan.to_json(), "origins": dict(self.origins), **besides}

    def page(self, config: DeploymentConfig) -> str:
        """A page that needs nothing else, its memory to the scale of the configured GPU."""
        from toolkit.display import sides_html
        from toolkit.display.memory_bar import Scale
        from toolkit.display.plan_html import page

        scale = Scale.of(self.plan, config.hardware.gpu_memory_bytes, config.limits.gpu_memory_utilization)
        sides = [sides_html.fitting(self.fit)] if self.fit is not None else []
        sides += [sides_html.beside(self.comparison)] if self.comparison is not None else []
        return page(self.plan, self.origins, self.values, shipped_conf(), scale, sides=sides)
