"""Changes to vLLM where it has no hook: one a file, each bound to the upstream source that it was written for."""
