"""dcp_local_seq_lens and dcp_slot_mapping against vLLM 0.32's own kernels and functions, run in torch."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("vllm")
language = pytest.importorskip("torch_language")
Language, Pointer = language.Language, language.Pointer
SHARES = [(2, 0, 1), (2, 1, 1), (2, 1, 16), (3, 2, 4), (4, 1, 8), (8, 7, 2), (1, 0, 1)]  # dcp, rank, interleave
PAD = -1


@pytest.mark.parametrize("share", SHARES)
def test_local_lengths_are_the_engines(share, volta, monkeypatch):
    from vllm.v1.attention.backends.utils import get_dcp_local_seq_lens
    from vllm.v1.worker.gpu import cp_utils

    lengths = torch.cat((torch.arange(200), torch.randint(0, 2**20, (100,)))).int()
    theirs, ours = torch.full((2, 320), 99, dtype=torch.int32)
    for block in range(3):
        monkeypatch.setattr(cp_utils, "tl", Language((block,), (3,)))
        cp_utils._dcp_local_seq_lens_kernel(Pointer(theirs), Pointer(lengths), *share, 300, 320, BLOCK_SIZE=128)
    volta.dcp_local_seq_lens(ours, lengths, *share)
    assert ours.tolist() == theirs.tolist()
    assert ours[:300].tolist() == get_dcp_local_seq_lens(lengths, *share).tolist()


@pytest.mark.parametrize("block_size", [16, 48])
@pytest.mark.parametrize("share", SHARES)
def test_slots_are_the_engines(share, block_size, volta, monkeypatch):
    from vllm.v1.worker.gpu import block_table as engine

    dcp, rank, interleave = share

    starts = torch.tensor([0, 1, 40, 40, 1500, 1507], dtype=torch.int32)
    rows = torch.tensor([3, 0, 2, 1, -1], dtype=torch.int32)  # -1: a padding request of a CUDA graph
    first = [7, 5000, 0, 0, 3]
    positions = torch.cat([first[r] + torch.arange(int(starts[r + 1] - starts[r])) for r in range(5)])
    table = torch.randint(0, 10**6, (4, 5100 // (block_size * dcp) + 1), dtype=torch.int32)
    theirs, ours = torch.full((2, 1600), 12345, dtype=torch.int64)
    monkeypatch.setattr(engine, "_load_ptr", lambda _pointers, _type: Pointer(table))
    for program in range(6):
        monkeypatch.setattr(engine, "tl", Language((0, program), (1, 6)))
        engine._compute_slot_mappings_kernel(
            1600,
            *(Pointer(tensor) for tensor in (rows, starts, positions, torch.zeros(1))),
            *(Pointer(torch.tensor([value])) for value in (table.size(1), block_size, True, True)),
            Pointer(theirs),
            1600,
            rank,
            CP_SIZE=dcp,
            CP_INTERLEAVE=interleave,
            PAD_ID=PAD,
            TRITON_BLOCK_SIZE=1024,
        )
    volta.dcp_slot_mapping(ours, positions, starts, table, block_size, *share, rows)
    assert ours.tolist() == theirs.tolist()
    assert (ours >= 0).any()
