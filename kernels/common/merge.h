// Arguments of the kernels in kernels/cuda/merge.cu, shared by host and device code. Strides are in elements.
#pragma once

#include "fast_divide.h"
#include "rows.h"

namespace volta {

// What is merged into: out[token, head, element], and the log-sum-exp out_lse[token, head] or null. `gate` or null.
struct MergeTarget {
  void* out;
  long long token, head;
  float* lse;
  long long lse_token, lse_head;
  const void* gate;
  long long gate_token, gate_head;
  FastDivide groups;  // row r of threads belongs to token r / groups
  long long rows;
  int heads, width;
  bool base2;
};

// Any number of parts at equal distances: row r takes one head.
struct MergeArguments {
  MergeTarget target;
  const void* parts;
  long long part, token, head;
  const float* lse;
  long long lse_part, lse_token, lse_head;
  int count;
};

constexpr int kHeadsOfAPair = 2;  // heads that one row of threads merges, so that their loads overlap

// One of two parts.
struct MergePart {
  const void* out;
  long long token, head;
  const float* lse;
  long long lse_token, lse_head;
};

// Two parts, wherever they are: row r takes kHeadsOfAPair heads. Tokens from `merged_tokens` on are copied from the second.
struct MergePairArguments {
  MergeTarget target;
  MergePart parts[2];
  long long merged_tokens;
};

}  // namespace volta
