// vocab_parallel_embedding and shuffle_rows: checks, launch, and the CPU implementation. The contract is in
// kernels/cuda/gather_rows.cu.
#include <cstring>

#include "operators.h"
#include "tensor.h"

namespace volta {
namespace {

struct Range {
  long long first, end, row;
};

// The argument of the kernels, as in gather_rows.cu.
struct Arguments {
  unsigned char* out;
  const unsigned char* table;
  long long out_stride, table_stride, table_rows;
  Ids ids;
  Range ranges[2];
  long long tokens;
  int bytes;
};

// By the bytes of a word: 2 to the power of the index.
Kernel kernels[5] = {
    {"gather_rows", "gather_rows_u8_u8_rows1_sm70"}, {"gather_rows", "gather_rows_u8_u8_rows2_sm70"},
    {"gather_rows", "gather_rows_u8_u8_rows4_sm70"}, {"gather_rows", "gather_rows_u8_u8_rows8_sm70"},
    {"gather_rows", "gather_rows_u8_u8_rows16_sm70"}};

std::int64_t row_of(const Arguments& a, std::int64_t id) {
  for (const Range& range : a.ranges) {
    if (id < range.first || id >= range.end) continue;
    const std::int64_t row = id - range.first + range.row;
    return row >= 0 && row < a.table_rows ? row : -1;
  }
  return -1;
}

void on_cpu(const Arguments& a) {
  parallel(a.tokens, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      const std::int64_t row = row_of(a, a.ids[token]);
      unsigned char* to = a.out + token * a.out_stride;
      if (row < 0) std::memset(to, 0, a.bytes);
      else std::memcpy(to, a.table + row * a.table_stride, a.bytes);
    }
  });
}

// Index of the widest word that rows can be moved in. The distance between rows does not matter where there is only one.
int widest_word(const Arguments& a) {
  auto all = reinterpret_cast<std::uintptr_t>(a.out) | reinterpret_cast<std::uintptr_t>(a.table) |
             static_cast<std::uintptr_t>(a.bytes);
  if (a.tokens > 1) all |= static_cast<std::uintptr_t>(a.out_stride);
  if (a.table_rows > 1) all |= static_cast<std::uintptr_t>(a.table_stride);
  int index = 4;
  while (all % (1u << index) != 0) --index;
  return index;
}

void gather(
    const Checker& check, const View& out, const View& ids, const View& table, Range first, Range second) {
  check.dim(table, 2);
  check.dim(out, 2);
  check.dtype(out, table.dtype);
  check.unit_stride(table);
  check.unit_stride(out);
  check.size(out, 0, ids.numel());
  check.size(out, 1, table.size(1));
  check.same_device(out, table);
  check.same_device(ids, table);
  const std::int64_t size = element_size(table.dtype);
  check.that(size > 0, "rows of this type are not supported");
  Arguments a{};
  a.ids = check.ids(ids);
  a.out = out.as<unsigned char>(), a.table = table.as<const unsigned char>();
  a.out_stride = out.stride(0) * size, a.table_stride = table.stride(0) * size, a.table_rows = table.size(0);
  a.ranges[0] = first, a.ranges[1] = second;
  a.tokens = check.small(out.size(0), "the number of ids");
  a.bytes = check.small(table.size(1) * size, "the bytes of a row");
  if (a.tokens == 0 || a.bytes == 0) return;
  if (table.device < 0) return on_cpu(a);
  const int word = widest_word(a);
  launch(kernels[word], table.device, tile(a.tokens, a.bytes >> word), a);
}

}  // namespace

void vocab_parallel_embedding(
    const Tensor& out, const Tensor& ids, const Tensor& weight, std::int64_t org_start, std::int64_t org_end,
    std::int64_t org_padding, std::int64_t added_start, std::int64_t added_end) {
  const Checker check("vocab_parallel_embedding");
  const std::int64_t added_row = org_end - org_start + org_padding;
  gather(
      check, check.view(out, "out"), check.view(ids, "input_ids"), check.view(weight, "weight"),
      {org_start, org_end, 0}, {added_start, added_end, added_row});
}

void shuffle_rows(const Tensor& input, const Tensor& map, const Tensor& output) {
  const Checker check("shuffle_rows");
  const View table = check.view(input, "input_tensor");
  check.dim(table, 2);
  gather(
      check, check.view(output, "output_tensor"), check.view(map, "dst2src_map"), table,
      {0, table.size(0), 0}, {0, 0, 0});
}

}  // namespace volta
