// Copies of a table's rows, chosen by index.
//
//   vocab_parallel_embedding:  out[t] = table[row of ids[t]] if this rank's part of the vocabulary holds the id, otherwise 0
//   shuffle_rows:              out[t] = table[ids[t]]
//
// Contract   table and out hold rows of the same numbers, unit stride inside a row, any stride between rows, of any type of
//            1 to 8 bytes. Two ranges of ids have rows, first .. end: the vocabulary's and the added one, each from a row of
//            its own on. An id in neither, or whose row the table does not have, gives zeros.
// Upstream   vLLM's csrc/libtorch_stable/vocab_parallel_embedding_kernels.cu, and get_masked_input_and_mask in
//            layers/vocab_parallel_embedding.py of 0.32.0; shuffle_rows in moe_permute_unpermute_op.cu, which gives zeros for
//            rows that do not exist. There the embedding trusts its ranges, and shuffle_rows wants rows of whole 16 bytes.
// Error      none: bytes are copied.
// Layout     threadIdx.y: token in the block; threadIdx.x: item, N bytes.
// Resources  no shared memory, at most 32 registers, no spills.
// Method     16 bytes at a time where addresses and row sizes allow it, otherwise 2 or 1.

#include "common.cuh"

namespace volta {

struct Range {
  int64 first, end, row;  // id `first` has row `row`
};

struct GatherArguments {
  uint8* out;
  const uint8* table;
  int64 out_stride, table_stride, table_rows;  // strides in bytes
  Ids ids;
  Range ranges[2];
  int64 tokens;
  int bytes;  // of a row
};

// Index of an id's row, or -1.
__device__ __forceinline__ int64 row_of(const GatherArguments& a, int64 id) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const Range& range = a.ranges[r];
    if (id < range.first || id >= range.end) continue;
    const int64 row = id - range.first + range.row;
    return row >= 0 && row < a.table_rows ? row : -1;
  }
  return -1;
}

template <int N>
__device__ __forceinline__ void gather_rows(const GatherArguments& a) {
  const int64 token = token_of_thread();
  if (token >= a.tokens) return;
  const int64 row = row_of(a, a.ids[token]);
  uint8* to = a.out + token * a.out_stride;
  const uint8* from = a.table + row * a.table_stride;
#pragma unroll 4
  for (int at = threadIdx.x * N; at < a.bytes; at += blockDim.x * N)
    store<uint8, N>(to + at, row < 0 ? Pack<uint8, N>{} : load<uint8, N>(from + at));
}

}  // namespace volta

#define VOLTA_GATHER_ROWS(N)                                                                                \
  extern "C" __global__ void vocab_parallel_embedding_u8_u8_rows##N##_sm70(volta::GatherArguments a) {     \
    volta::gather_rows<N>(a);                                                                               \
  }                                                                                                         \
  extern "C" __global__ void shuffle_rows_u8_u8_rows##N##_sm70(volta::GatherArguments a) {                 \
    volta::gather_rows<N>(a);                                                                               \
  }

VOLTA_GATHER_ROWS(16)
VOLTA_GATHER_ROWS(2)
VOLTA_GATHER_ROWS(1)
