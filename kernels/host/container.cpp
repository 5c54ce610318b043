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

std::string_view name_of(const Entry& entry) { return {entry.name, strnlen(entry.name, sizeof entry.name)}; }

}  // namespace

std::string_view device_code(std::string_view name, CodeKind kind) {
  const auto* header = reinterpret_cast<const Header*>(volta_device_container);
  const auto* entries = reinterpret_cast<const Entry*>(header + 1);
  for (std::uint32_t i = 0; i < header->count; ++i) {
    const Entry& entry = entries[i];
    if (name == name_of(entry) && entry.kind == static_cast<std::uint32_t>(kind)) {
      return {reinterpret_cast<const char*>(volta_device_container) + entry.offset, entry.size};
    }
  }
  throw std::runtime_error("volta: this library carries no device code for '" + std::string(name) + "'");
}

std::vector<std::string> device_code_names(CodeKind kind) {
  const auto* header = reinterpret_cast<const Header*>(volta_device_container);
  const auto* entries = reinterpret_cast<const Entry*>(header + 1);
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < header->count; ++i)
    if (entries[i].kind == static_cast<std::uint32_t>(kind)) names.emplace_back(name_of(entries[i]));
  return names;
}

}  // namespace volta
