// Arguments of the kernels in kernels/cuda/kv_cache.cu, shared by host and device code.
#pragma once

#include "fast_divide.h"
#include "rows.h"

namespace volta {

constexpr int kHeadsOfARow = 4;  // heads of a token that one row of threads takes, so that their loads overlap

// Keys or values: a paged cache, and dense rows of fp16. Element e of a head lies in the cache at
//   block * block_stride + position * position_stride + head * head_stride + e / run * run_stride + e % run,
// where `run` elements are contiguous: the whole head, except in the split layout of reshape_and_cache.
struct CacheSide {
  void* cache;
  long long block_stride, position_stride, head_stride, run_stride;
  FastDivide run;
  void* dense;  // [tokens, heads, width]
  long long dense_token_stride, dense_head_stride;
  const float* scale;
  int scale_stride;  // between heads: 0 or 1
  int width;         // elements of a head; 0 where there is no such side
};

// Row r of threads takes kHeadsOfARow heads of token r / groups.
struct CacheRows {
  long long count;
  FastDivide groups;
  int heads;
};

struct CacheWriteArguments {
  CacheSide sides[2];
  CacheRows rows;
  const long long* slots;
  long long total_slots;
  FastDivide block_size;
};

struct CacheGatherArguments {
  CacheSide sides[2];
  CacheRows rows;
  const int* block_table;   // [requests, table_stride]
  const int* starts;        // [requests + 1], ascending: request r owns the output tokens starts[r] .. starts[r + 1]
  const int* first_tokens;  // [requests] or null: where in its sequence request r's first output token is
  long long table_stride, blocks;
  FastDivide block_size;
  int requests, table_width;
};

}  // namespace volta
