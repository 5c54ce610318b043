"""KV scales: their files, packs of them, and which of them a checkpoint needs."""
