// String arguments of operators.
#pragma once

#include <torch/csrc/stable/stableivalue_conversions.h>

#include <string>

namespace volta {

// A string that an operator takes. The stable ABI's own conversion, to std::string, never frees its copy (torch 2.10 to 2.13),
// so an operator that is called for every layer of every step would leak; this type has a conversion of its own.
struct Text {
  std::string value;
};

}  // namespace volta

HIDDEN_NAMESPACE_BEGIN(torch, stable, detail)

template <>
struct ToImpl<volta::Text> {
  // The string in `value` is ours to delete, as for every owning argument.
  static volta::Text call(StableIValue value, uint64_t, bool) {
    const StringHandle handle = torch::stable::detail::to<StringHandle>(value);
    size_t length = 0;
    const char* data = nullptr;
    TORCH_ERROR_CODE_CHECK(torch_string_length(handle, &length));
    TORCH_ERROR_CODE_CHECK(torch_string_c_str(handle, &data));
    volta::Text text{std::string(data, length)};
    TORCH_ERROR_CODE_CHECK(torch_delete_string(handle));
    return text;
  }
};

HIDDEN_NAMESPACE_END(torch, stable, detail)
