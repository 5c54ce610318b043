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
// Layout     threadIdx.y: token in the block; threadIdx.x: word of the row.
// Resources  no shared memory, at most 32 registers, no spills.
// Method     words of 16 bytes where addresses, strides and row sizes are multiples of it, otherwise of 8, 4, 2 or 1. Two words
//            a thread: both loads are issued before a store waits for one of them.

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

// A row of a block's threads copies a row of words.
template <typename Word>
__device__ __forceinline__ void gather_rows(const GatherArguments& a) {
  const int64 token = token_of_thread();
  if (token >= a.tokens) return;
  const int64 row = row_of(a, a.ids[token]);
  const unsigned words = static_cast<unsigned>(a.bytes) / sizeof(Word), step = blockDim.x;
  auto* to = reinterpret_cast<Word*>(a.out + token * a.out_stride);
  const auto* from = reinterpret_cast<const Word*>(a.table + row * a.table_stride);
  for (unsigned at = threadIdx.x; at < words; at += 2 * step) {
    const bool two = at + step < words;
    Word first{}, second{};
    if (row >= 0) {
      first = from[at];
      if (two) second = from[at + step];
    }
    to[at] = first;
    if (two) to[at + step] = second;
  }
}

}  // namespace volta

#define VOLTA_GATHER_ROWS(N, ...)                                                               \
  extern "C" __global__ void gather_rows_u8_u8_rows##N##_sm70(volta::GatherArguments a) {       \
    volta::gather_rows<__VA_ARGS__>(a);                                                         \
  }

VOLTA_GATHER_ROWS(16, volta::Pack<unsigned, 4>)
VOLTA_GATHER_ROWS(8, volta::Pack<unsigned, 2>)
VOLTA_GATHER_ROWS(4, unsigned)
VOLTA_GATHER_ROWS(2, unsigned short)
VOLTA_GATHER_ROWS(1, unsigned char)
