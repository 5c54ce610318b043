"""vLLM's log is read as phases."""

from toolkit.engine.phases import Phase, later_phase

LOG = """\
(APIServer pid=1) INFO 11-29 13:56:33 [api_utils.py:286] non-default args: {'model_tag': 'model'}
(APIServer pid=1) INFO 11-29 13:56:48 [model.py:733] Resolved architecture: LlamaForCausalLM
(EngineCore pid=2) INFO 11-29 13:57:00 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: model='model'
(Worker pid=3) INFO 11-29 13:57:11 [cpu_model_runner.py:68] Starting to load model model...
Loading safetensors checkpoint shards:   0% Completed | 0/1 [00:00<?, ?it/s]
(Worker pid=3) INFO 11-29 13:57:13 [default_loader.py:501] Loading weights took 1.15 seconds
(EngineCore pid=2) INFO 11-29 13:57:14 [kv_cache_utils.py:2327] CPU KV cache size: 93,184 tokens
(EngineCore pid=2) INFO 11-29 14:11:26 [core.py:402] init engine (profile, create kv cache, warmup model) took 4.26 s
(APIServer pid=1) INFO 11-29 14:11:28 [entry.py:140] Starting vLLM server on http://127.0.0.1:8455
"""


def test_a_real_start_goes_through_every_phase_once_and_in_order():
    phase, seen = Phase.importing, []
    for line in LOG.splitlines():
        if (later := later_phase(phase, line)) is not None:
            phase = later
            seen.append(phase)
    assert seen == [
        Phase.configuring,
        Phase.starting_core,
        Phase.loading,
        Phase.kv_cache,
        Phase.warming_up,
        Phase.listening,
    ]


def test_a_phase_never_goes_back():
    assert later_phase(Phase.kv_cache, "Starting to load model draft...") is None
