#include "container.h"

#include <cstdint>
#include <cstring>
#include <stdexcept>

extern "C" const unsigned char volta_device_container[];

namespace volta {
namespace {

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t count;
};

struct Entry {
  char name[40];
  std::uint32_t kind;
  std::uint32_t arch;
  std::uint64_t offset;
  std::uint64_t size;
  unsigned char sha256[32];
};

static_assert(sizeof(Header) == 16 && sizeof(Entry) == 96, "the container's layout is fixed");

}  // namespace

std::string_view device_code(std::string_view name, CodeKind kind) {
  const auto* header = reinterpret_cast<const Header*>(volta_device_container);
  const auto* entries = reinterpret_cast<const Entry*>(header + 1);
  for (std::uint32_t i = 0; i < header->count; ++i) {
    const Entry& entry = entries[i];
    const bool same = name == std::string_view(entry.name, strnlen(entry.name, sizeof entry.name));
    if (same && entry.kind == static_cast<std::uint32_t>(kind)) {
      return {reinterpret_cast<const char*>(volta_device_container) + entry.offset, entry.size};
    }
  }
  throw std::runtime_error("volta: this library carries no device code for '" + std::string(name) + "'");
}

}  // namespace volta
