"""Group `speculative`: drafting tokens ahead and verifying them together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional


@dataclass
class SpeculativeConfig:
    """A speculative method; `none` decodes one token a step."""

    method: str = "none"
    """`none`, `mtp` (the checkpoint's own next-token head), `dflash2` (a block draft model), `draft_model` (a smaller
    model of the same vocabulary) or `ngram`."""
    tokens: int = 0
    """Draft tokens a step."""
    draft_repository: Optional[str] = None
    """dflash2, draft_model: the draft's hub repository."""
    draft_revision: Optional[str] = None
    """dflash2, draft_model: the draft's commit, 40 hexadecimal digits."""
    draft_path: Optional[str] = None
    """dflash2, draft_model: a local folder that holds the draft; replaces repository and revision."""
    draft_layers: int = 0
    """dflash2: layers of the draft model."""
    draft_kv_bytes_per_token: int = 0
    """dflash2: bytes of draft KV a token, layer and rank."""
    draft_window: Optional[int] = None
    """dflash2: tokens that the draft's layers see; null where they see all."""

    @property
    def has_draft(self) -> bool:
        """Whether a model of its own drafts."""
        return self.method in ("dflash2", "draft_model")
