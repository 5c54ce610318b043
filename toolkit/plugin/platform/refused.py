"""A platform that cannot be created: it turns a refusal into the error that ends the process."""

from __future__ import annotations

import os
from typing import NoReturn


class RefusedPlatform:
    """Raises the refusal's reason. vLLM creates its platform's class outside every `except`."""

    def __new__(cls) -> NoReturn:
        """Raise; the reason is worked out anew, so that nothing has to be remembered."""
        from toolkit.plugin.platform.entry import decide_here

        try:
            reason = decide_here(os.environ).reason
        except Exception as error:
            raise RuntimeError(f"engine=v100 cannot start: {type(error).__name__}: {error}") from error
        raise RuntimeError(f"engine=v100 cannot start: {reason}")
