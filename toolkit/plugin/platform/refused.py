"""A platform that cannot be created: it turns a refusal into the error that ends the process."""

from __future__ import annotations

import os
from typing import NoReturn


class RefusedPlatform:
    """Raises the refusal's reason. vLLM creates its platform's class outside every `except`."""

    def __new__(cls) -> NoReturn:
        """Raise; the reason is worked out anew, so that nothing has to be remembered."""
        from toolkit.plugin.platform.entry import decide_here

        raise RuntimeError(f"engine=v100 cannot start: {decide_here(os.environ).reason}")
