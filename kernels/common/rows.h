// Rows of a strided tensor, shared by host and device code.
#pragma once

namespace volta {

constexpr int kThreadsOfRows = 128;  // in a block whose rows of threads take a row of data each

// The leading dimensions of a tensor, collapsed to at most two. Row r starts
// (r / inner) * outer_stride + (r % inner) * inner_stride elements after the first one.
struct Rows {
  long long inner;
  long long outer_stride;
  long long inner_stride;
};

#if defined(__CUDACC__)
__device__
#endif
inline long long row_offset(const Rows& rows, long long row) {
  if (rows.inner == 1) return row * rows.outer_stride;
  // Most shapes have fewer than 2^32 rows, and a 32-bit division is five times cheaper on SM70.
  if (((row | rows.inner) >> 32) == 0) {
    const unsigned outer = static_cast<unsigned>(row) / static_cast<unsigned>(rows.inner);
    const unsigned inner = static_cast<unsigned>(row) - outer * static_cast<unsigned>(rows.inner);
    return outer * rows.outer_stride + inner * rows.inner_stride;
  }
  return row / rows.inner * rows.outer_stride + row % rows.inner * rows.inner_stride;
}

}  // namespace volta
