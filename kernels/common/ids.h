// Indices that come as int32 or int64, shared by host and device code.
#pragma once

namespace volta {

// One dimension of ids. uint32 counts as int32: no id reaches 2^31, and the id that stands for nothing reads as -1.
struct Ids {
  const void* data;
  bool wide;  // int64

#if defined(__CUDACC__)
  __device__ __forceinline__
#endif
  long long operator[](long long i) const {
    return wide ? static_cast<const long long*>(data)[i] : static_cast<const int*>(data)[i];
  }
};

}  // namespace volta
