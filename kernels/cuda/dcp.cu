// What a rank of decode context parallelism (DCP) holds: local sequence lengths, and cache slots of new tokens.
//
// The token at position i of a request lives on rank (i / interleave) % dcp, there at local position
// i / (dcp * interleave) * interleave + i % interleave. With that, of L tokens rank k holds
//
//   L / (dcp I) * I + clamp(L % (dcp I) - k I, 0, I)          I = interleave
//
// and the slot of a token is table[local position / block_size] * block_size + local position % block_size, which needs
// block_size to be a multiple of I (vLLM asks for that, too): then a block of every rank covers the same dcp * block_size
// positions.
//
// Contract   lengths, starts, rows and the table are int32, positions and slots int64; any dcp, rank and interleave whose
//            product dcp * block_size fits an int. Lengths below zero count as zero, entries of the result past the lengths
//            become 0. A token's slot is -1 when another rank owns it, when it is past the last request, when its request has
//            row -1, and when its position or block lies outside the table: whatever follows writes nothing then.
// Error      none: exact integers, equal to kernels/reference/dcp.py and to vLLM 0.32's own kernels.
// Layout     one thread a result. A token finds its request by bisection of the starts, which stay in the cache.
// Resources  no shared memory, at most 40 registers, no spills.
// Method     everything is read on the device, so that a replayed graph follows its inputs and the host waits for nothing.

#include "common.cuh"

namespace volta {

struct LocalLengthArguments {
  int* result;
  const int* lengths;
  int64 result_stride, length_stride;
  int results, count;  // entries of result, and of lengths
  int dcp, rank, interleave;
};

struct SlotArguments {
  int64* slots;
  const int64* positions;
  const int* starts;  // [requests + 1]
  const int* rows;    // [requests], or null: request r has row r
  const int* table;
  int64 table_stride;
  int tokens, positioned;  // entries of slots, and of positions
  int requests, table_rows, table_columns;
  int block_size, dcp, rank, interleave;
};

__device__ __forceinline__ int thread_of_grid() { return blockIdx.x * blockDim.x + threadIdx.x; }

// The request of a token: the first one that ends behind it; `requests` when none does. Empty requests own nothing.
__device__ __forceinline__ int request_of(const int* starts, int requests, int token) {
  int low = 0, high = requests;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (starts[middle + 1] > token)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

__device__ __forceinline__ int64 slot_of(const SlotArguments& a, int token) {
  if (token >= a.positioned || token < a.starts[0]) return -1;
  const int request = request_of(a.starts, a.requests, token);
  if (request == a.requests) return -1;
  const int row = a.rows == nullptr ? request : a.rows[request];
  const int64 position = a.positions[token];
  if (row < 0 || row >= a.table_rows || position < 0) return -1;
  const int64 unit = position / a.interleave;
  if (unit % a.dcp != a.rank) return -1;
  const int64 local = unit / a.dcp * a.interleave + position % a.interleave;
  const int64 column = local / a.block_size;
  if (column >= a.table_columns) return -1;
  const int block = a.table[row * a.table_stride + column];
  return block < 0 ? -1 : static_cast<int64>(block) * a.block_size + local % a.block_size;
}

}  // namespace volta

extern "C" __global__ void dcp_local_seq_lens_i32_i32_rows_sm70(volta::LocalLengthArguments a) {
  const int at = volta::thread_of_grid();
  if (at >= a.results) return;
  const int length = at < a.count ? max(a.lengths[at * a.length_stride], 0) : 0;
  const int whole = length / a.dcp / a.interleave;  // rounds over all ranks
  const volta::int64 rest = length - static_cast<volta::int64>(whole) * a.dcp * a.interleave;
  const volta::int64 mine = rest - static_cast<volta::int64>(a.rank) * a.interleave;
  const int last = static_cast<int>(mine < 0 ? 0 : mine > a.interleave ? a.interleave : mine);
  a.result[at * a.result_stride] = whole * a.interleave + last;
}

extern "C" __global__ void dcp_slot_mapping_i64_i64_tokens_sm70(volta::SlotArguments a) {
  const int token = volta::thread_of_grid();
  if (token < a.tokens) a.slots[token] = volta::slot_of(a, token);
}
