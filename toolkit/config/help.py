"""What `--help` says before Hydra's lists: what the verb does, and which lists are of use to it."""

from __future__ import annotations

import re
from typing import Any

from toolkit.config.schema.verbs import DeploymentConfig


def settings_of_help(about: str | None, schema: type[Any]) -> tuple[str, str]:
    """Hydra's overrides for the help of a verb.

    about: the docstring of the verb's module. schema: its configuration; one that plans is shown recipes and groups.
    """
    template = "deployment" if issubclass(schema, DeploymentConfig) else "verb"
    summary = re.sub(r"^`.*?`: ", "", (about or "").partition("\n")[0])
    text = (summary[:1].upper() + summary[1:]).replace("\\", "\\\\").replace('"', '\\"')
    return f"hydra/help={template}", f'hydra.help.header="{text}"'
