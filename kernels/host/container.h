// The device code inside this library; the layout is described in toolkit/native/container.py.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace volta {

enum class CodeKind : unsigned { kManifest = 0, kCubin = 1, kPtx = 2 };

// The bytes of one entry. PTX ends with NUL. Throws if the entry is missing.
std::string_view device_code(std::string_view name, CodeKind kind);

// The names of all entries of a kind.
std::vector<std::string> device_code_names(CodeKind kind);

}  // namespace volta
