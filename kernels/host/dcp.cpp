// dcp_local_seq_lens and dcp_slot_mapping: checks, launch, and the CPU implementation. The contract is in kernels/cuda/dcp.cu.
#include <algorithm>
#include <string>

#include "operators.h"
#include "tensor.h"

namespace volta {
namespace {

// The arguments of the kernels, as in dcp.cu.
struct LengthArguments {
  int* result;
  const int* lengths;
  long long result_stride, length_stride;
  int results, count;
  int dcp, rank, interleave;
};

struct SlotArguments {
  long long* slots;
  const long long* positions;
  const int* starts;
  const int* rows;
  const int* table;
  long long table_stride;
  int tokens, positioned;
  int requests, table_rows, table_columns;
  int block_size, dcp, rank, interleave;
};

Kernel length_kernel{"dcp", "dcp_local_seq_lens_i32_i32_rows_sm70"};
Kernel slot_kernel{"dcp", "dcp_slot_mapping_i64_i64_tokens_sm70"};

Shape one_thread_each(std::int64_t count) {
  Shape shape;
  shape.block_x = 128;
  shape.grid_x = static_cast<unsigned>((count + 127) / 128);
  return shape;
}

void lengths_on_cpu(const LengthArguments& a) {
  for (long long at = 0; at < a.results; ++at) {
    const long long length = at < a.count ? std::max(a.lengths[at * a.length_stride], 0) : 0;
    const long long round = static_cast<long long>(a.dcp) * a.interleave, whole = length / round;
    const long long mine = length % round - static_cast<long long>(a.rank) * a.interleave;
    a.result[at * a.result_stride] =
        static_cast<int>(whole * a.interleave + std::clamp(mine, 0ll, static_cast<long long>(a.interleave)));
  }
}

long long slot_of(const SlotArguments& a, int request, int token) {
  const int row = a.rows == nullptr ? request : a.rows[request];
  const long long position = a.positions[token];
  if (row < 0 || row >= a.table_rows || position < 0 || position / a.interleave % a.dcp != a.rank) return -1;
  const long long local = position / a.interleave / a.dcp * a.interleave + position % a.interleave;
  if (local / a.block_size >= a.table_columns) return -1;
  const int block = a.table[row * a.table_stride + local / a.block_size];
  return block < 0 ? -1 : static_cast<long long>(block) * a.block_size + local % a.block_size;
}

void slots_on_cpu(const SlotArguments& a) {
  std::fill(a.slots, a.slots + a.tokens, -1);
  for (int request = 0; request < a.requests; ++request) {
    const int end = std::min({a.starts[request + 1], a.tokens, a.positioned});
    for (int token = std::max(a.starts[request], 0); token < end; ++token) a.slots[token] = slot_of(a, request, token);
  }
}

// Checks dcp, rank and interleave, and writes them into the arguments.
template <typename Arguments>
void ranks(const Checker& check, std::int64_t dcp, std::int64_t rank, std::int64_t interleave, Arguments& a) {
  check.that(dcp >= 1, "dcp must be at least 1");
  check.that(rank >= 0 && rank < dcp, "rank must be from 0 to dcp - 1");
  check.that(interleave >= 1, "interleave must be at least 1");
  a.dcp = check.small(dcp, "dcp"), a.rank = static_cast<int>(rank), a.interleave = check.small(interleave, "interleave");
}

}  // namespace

void dcp_local_seq_lens(
    const Tensor& result_, const Tensor& seq_lens, std::int64_t dcp, std::int64_t rank, std::int64_t interleave) {
  const Checker check("dcp_local_seq_lens");
  const View result = check.view(result_, "result"), lengths = check.view(seq_lens, "seq_lens");
  for (const View& view : {result, lengths}) {
    check.dtype(view, ScalarType::Int);
    check.dim(view, 1);
  }
  check.same_device(result, lengths);
  check.that(result.size(0) >= lengths.size(0), "result must have an entry for each of seq_lens");
  LengthArguments a{};
  ranks(check, dcp, rank, interleave, a);
  a.result = result.as<int>(), a.result_stride = result.stride(0);
  a.lengths = lengths.as<const int>(), a.length_stride = lengths.stride(0);
  a.results = check.small(result.size(0), "the size of result"), a.count = static_cast<int>(lengths.size(0));
  if (a.results == 0) return;
  result.device < 0 ? lengths_on_cpu(a) : launch(length_kernel, result.device, one_thread_each(a.results), a);
}

void dcp_slot_mapping(
    const Tensor& slot_mapping, const Tensor& positions_, const Tensor& query_start_loc, const Tensor& block_table,
    std::int64_t block_size, std::int64_t dcp, std::int64_t rank, std::int64_t interleave, const std::optional<Tensor>& rows_) {
  const Checker check("dcp_slot_mapping");
  const View slots = check.view(slot_mapping, "slot_mapping"), positions = check.view(positions_, "positions");
  const View starts = check.view(query_start_loc, "query_start_loc"), table = check.view(block_table, "block_table");
  const std::optional<View> rows = check.view(rows_, "rows");
  check.dim(slots, 1);
  check.shaped(slots, ScalarType::Long, {slots.size(0)}, slots);
  check.dim(positions, 1);
  check.shaped(positions, ScalarType::Long, {positions.size(0)}, slots);
  check.dim(starts, 1);
  check.shaped(starts, ScalarType::Int, {starts.size(0)}, slots);
  check.that(starts.size(0) >= 1, "query_start_loc must have one entry more than there are requests");
  check.dim(table, 2);
  check.shaped(table, ScalarType::Int, {table.size(0), table.size(1)}, slots);
  SlotArguments a{};
  ranks(check, dcp, rank, interleave, a);
  a.block_size = check.small(block_size, "block_size");
  check.that(block_size >= 1 && block_size % interleave == 0, "block_size must be a multiple of interleave");
  check.small(dcp * block_size, "dcp times block_size");
  a.requests = check.small(starts.size(0) - 1, "the number of requests");
  if (rows.has_value()) {
    check.shaped(*rows, ScalarType::Int, {a.requests}, slots);
    a.rows = rows->as<const int>();
  }
  a.slots = slots.as<long long>(), a.positions = positions.as<const long long>(), a.starts = starts.as<const int>();
  a.table = table.as<const int>(), a.table_stride = table.stride(0);
  a.tokens = check.small(slots.size(0), "the size of slot_mapping");
  a.positioned = check.small(positions.size(0), "the size of positions");
  a.table_rows = check.small(table.size(0), "block_table.size(0)");
  a.table_columns = check.small(table.size(1), "block_table.size(1)");
  if (a.tokens == 0) return;
  slots.device < 0 ? slots_on_cpu(a) : launch(slot_kernel, slots.device, one_thread_each(a.tokens), a);
}

}  // namespace volta
