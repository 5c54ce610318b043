// moe_align_block_size, moe_lora_align_block_size and batched_moe_align_block_size: checks, launch, and the CPU
// implementation. The contract is in kernels/cuda/moe_align.cu.
#include <algorithm>
#include <limits>
#include <vector>

#include "../common/fast_divide.h"
#include "operators.h"
#include "tensor.h"

namespace volta {
namespace {

// The arguments of the kernels, as in moe_align.cu.
struct Places {
  int* sorted;
  int* block_experts;
  int* total;
  long long sorted_size, blocks;
  FastDivide block;
  int missing;
};

struct AlignArguments {
  Places places;
  Ids ids;
  const int* map;
  int* scatter;
  int entries, experts;
  int own, segment;
};

struct LoraArguments {
  AlignArguments align;
  const int* adapters;
  const int* enabled;
  const int* token_adapter;
  FastDivide entries_of_a_token;
  int max_loras;
};

struct BatchedArguments {
  Places places;
  const int* counts;
  int batches, max_tokens;
};

constexpr int kMaxExperts = 4096;
constexpr int kMaxOwn = 8;        // experts of a block
constexpr int kBlocks = 64;       // wanted: each goes through all entries, and a V100 has 80 SMs
constexpr int kOvershoot = 2048;  // how far a loop over entries may count past the last one

Kernel align_kernel{"moe_align", "moe_align_block_size_i32_i32_experts_sm70"};
Kernel lora_kernel{"moe_align", "moe_lora_align_block_size_i32_i32_experts_sm70"};
Kernel batched_kernel{"moe_align", "batched_moe_align_block_size_i32_i32_experts_sm70"};

int ceil_divide(std::int64_t x, std::int64_t by) { return static_cast<int>((x + by - 1) / by); }

// Shares the work out among blocks and warps (one for 128 entries, 8 to 32 in all), and returns the launch that this takes.
Shape share_out(AlignArguments& a, int adapters) {
  a.own = std::clamp(ceil_divide(static_cast<std::int64_t>(a.experts) * adapters, kBlocks), 1, kMaxOwn);
  const int warps = std::clamp(ceil_divide(a.entries, 128), 8, 32);
  a.segment = 32 * ceil_divide(a.entries, 32 * warps);
  Shape shape;
  shape.block_x = static_cast<unsigned>(32 * warps);
  shape.grid_x = static_cast<unsigned>(ceil_divide(a.experts, a.own));
  shape.grid_y = static_cast<unsigned>(adapters);
  return shape;
}

Shape shape_of(const BatchedArguments& a) {
  Shape shape;
  shape.block_x = static_cast<unsigned>(32 * std::clamp(ceil_divide(a.max_tokens, 32), 1, 8));
  shape.grid_x = static_cast<unsigned>(std::max(1, a.batches));
  return shape;
}

// Lays out lists of the given lengths, fills in what does not depend on their entries, and returns where each starts.
std::vector<std::int64_t> lay_out(const Places& p, const std::vector<int>& counts) {
  std::vector<std::int64_t> starts;
  const std::int64_t size = p.block.divisor;
  std::int64_t total = 0;
  std::fill(p.sorted, p.sorted + p.sorted_size, p.missing);
  std::fill(p.block_experts, p.block_experts + p.blocks, -1);
  for (std::size_t e = 0; e < counts.size(); ++e) {
    starts.push_back(total);
    const std::int64_t first = total / size;
    total += (counts[e] + size - 1) / size * size;
    for (std::int64_t b = first; b < std::min<std::int64_t>(total / size, p.blocks); ++b)
      p.block_experts[b] = static_cast<int>(e);
  }
  *p.total = static_cast<int>(total);
  return starts;
}

int list_of(const AlignArguments& a, int entry) {
  const std::int64_t id = a.ids[entry];
  if (id < 0 || id >= a.experts) return -1;
  const int local = a.map == nullptr ? static_cast<int>(id) : a.map[id];
  return local < a.experts ? local : -1;
}

template <typename List>
void align_on_cpu(const AlignArguments& a, List list) {
  std::vector<int> counts(a.experts);
  for (int entry = 0; entry < a.entries; ++entry) {
    const int e = list(entry);
    if (e >= 0) ++counts[e];
    if (a.scatter != nullptr) a.scatter[entry] = e >= 0 ? entry : -1;
  }
  std::vector<std::int64_t> next = lay_out(a.places, counts);
  for (int entry = 0; entry < a.entries; ++entry) {
    const int e = list(entry);
    if (e < 0) continue;
    const std::int64_t at = next[e]++;
    if (at < a.places.sorted_size) a.places.sorted[at] = entry;
  }
}

void align_adapters_on_cpu(const LoraArguments& a, int slots) {
  for (int slot = 0; slot < slots; ++slot) {
    const int adapter = a.adapters[slot];
    if (adapter < 0 || adapter >= a.max_loras || a.enabled[adapter] == 0) continue;
    AlignArguments part = a.align;
    part.places.sorted += adapter * part.places.sorted_size;
    part.places.block_experts += adapter * part.places.blocks;
    part.places.total += adapter;
    align_on_cpu(part, [&](int entry) {
      return a.token_adapter[entry / a.entries_of_a_token.divisor] == adapter ? list_of(part, entry) : -1;
    });
  }
}

void align_batches_on_cpu(const BatchedArguments& a) {
  std::vector<int> counts(a.counts, a.counts + a.batches);
  for (int& count : counts) count = std::max(0, std::min(count, a.max_tokens));
  const std::vector<std::int64_t> starts = lay_out(a.places, counts);
  for (int batch = 0; batch < a.batches; ++batch)
    for (int i = 0; i < counts[batch]; ++i)
      if (starts[batch] + i < a.places.sorted_size) a.places.sorted[starts[batch] + i] = batch * a.max_tokens + i;
}

// A contiguous list of int32 on the device of another tensor.
int* list_of_ints(const Checker& check, const View& view, const View& as) {
  check.dtype(view, ScalarType::Int);
  check.contiguous(view);
  check.same_device(view, as);
  return view.as<int>();
}

Places places_of(
    const Checker& check, const View& sorted, const View& block_experts, const View& total, const View& as,
    std::int64_t block_size) {
  check.that(block_size > 0, "block_size must be positive");
  Places p{};
  p.sorted = list_of_ints(check, sorted, as), p.sorted_size = sorted.numel();
  p.block_experts = list_of_ints(check, block_experts, as), p.blocks = block_experts.numel();
  p.total = list_of_ints(check, total, as);
  p.block = FastDivide(static_cast<unsigned>(check.small(block_size, "block_size")));
  return p;
}

// The entries, the experts and their map; `check` has seen the places.
void entries_of(
    const Checker& check, const View& ids, std::int64_t experts, const std::optional<View>& map, AlignArguments& a) {
  a.ids = check.ids(ids);
  a.entries = a.places.missing = check.small(ids.numel(), "the number of entries of topk_ids");
  check.that(experts > 0 && experts <= kMaxExperts, "num_experts must be between 1 and 4096");
  a.experts = static_cast<int>(experts);
  const std::int64_t padding = experts * (static_cast<std::int64_t>(a.places.block.divisor) - 1);
  check.small(a.entries + padding + kOvershoot, "the number of entries with their padding");
  if (!map.has_value()) return;
  a.map = list_of_ints(check, *map, ids);
  check.that(map->numel() >= experts, "maybe_expert_map must have an entry for each of num_experts");
}

}  // namespace

void moe_align_block_size(
    const Tensor& ids_, std::int64_t experts, std::int64_t block_size, const Tensor& sorted, const Tensor& block_experts,
    const Tensor& total_, const std::optional<Tensor>& map, const std::optional<Tensor>& scatter_) {
  const Checker check("moe_align_block_size");
  const View ids = check.view(ids_, "topk_ids"), total = check.view(total_, "num_tokens_post_pad");
  AlignArguments a{};
  a.places = places_of(
      check, check.view(sorted, "sorted_token_ids"), check.view(block_experts, "experts_ids"), total, ids, block_size);
  check.that(total.numel() == 1, "num_tokens_post_pad must hold one number");
  entries_of(check, ids, experts, check.view(map, "maybe_expert_map"), a);
  if (const std::optional<View> scatter = check.view(scatter_, "scatter_idx")) {
    a.scatter = list_of_ints(check, *scatter, ids);
    check.that(scatter->numel() == a.entries, "scatter_idx must hold one number for each of topk_ids");
  }
  const Shape shape = share_out(a, 1);
  if (ids.device >= 0) return launch(align_kernel, ids.device, shape, a);
  align_on_cpu(a, [&](int entry) { return list_of(a, entry); });
}

void moe_lora_align_block_size(
    const Tensor& ids_, const Tensor& token_adapter_, std::int64_t experts, std::int64_t block_size,
    std::int64_t max_loras, std::int64_t max_tokens, std::int64_t max_blocks, const Tensor& sorted_,
    const Tensor& block_experts_, const Tensor& total_, const Tensor& enabled_, const Tensor& adapters_,
    const std::optional<Tensor>& map) {
  const Checker check("moe_lora_align_block_size");
  const View ids = check.view(ids_, "topk_ids"), token_adapter = check.view(token_adapter_, "token_lora_mapping");
  const View sorted = check.view(sorted_, "sorted_token_ids"), total = check.view(total_, "num_tokens_post_pad");
  const View block_experts = check.view(block_experts_, "experts_ids");
  const View enabled = check.view(enabled_, "adapter_enabled"), adapters = check.view(adapters_, "lora_ids");
  LoraArguments a{};
  a.align.places = places_of(check, sorted, block_experts, total, ids, block_size);
  entries_of(check, ids, experts, check.view(map, "maybe_expert_map"), a.align);
  check.dim(ids, 2);
  a.max_loras = check.small(max_loras, "max_loras");
  a.align.places.sorted_size = check.small(max_tokens, "max_num_tokens_padded");
  a.align.places.blocks = check.small(max_blocks, "max_num_m_blocks");
  check.that(
      sorted.numel() >= max_loras * max_tokens && block_experts.numel() >= max_loras * max_blocks &&
          total.numel() >= max_loras,
      "sorted_token_ids, experts_ids and num_tokens_post_pad must have a part for each of max_loras");
  a.token_adapter = list_of_ints(check, token_adapter, ids);
  check.that(token_adapter.numel() >= ids.size(0), "token_lora_mapping must have an entry for each token");
  a.enabled = list_of_ints(check, enabled, ids);
  check.that(enabled.numel() >= max_loras, "adapter_enabled must have an entry for each of max_loras");
  a.adapters = list_of_ints(check, adapters, ids);
  a.entries_of_a_token = FastDivide(std::max(1u, static_cast<unsigned>(ids.size(1))));
  const int slots = static_cast<int>(std::min<std::int64_t>(adapters.numel(), max_loras + 1));
  if (slots == 0) return;
  const Shape shape = share_out(a.align, slots);
  if (ids.device >= 0) return launch(lora_kernel, ids.device, shape, a);
  align_adapters_on_cpu(a, slots);
}

void batched_moe_align_block_size(
    std::int64_t max_tokens, std::int64_t block_size, const Tensor& counts_, const Tensor& sorted,
    const Tensor& block_experts, const Tensor& total_) {
  const Checker check("batched_moe_align_block_size");
  const View counts = check.view(counts_, "expert_num_tokens"), total = check.view(total_, "num_tokens_post_pad");
  BatchedArguments a{};
  a.places = places_of(
      check, check.view(sorted, "sorted_token_ids"), check.view(block_experts, "experts_ids"), total, counts, block_size);
  check.that(total.numel() == 1, "num_tokens_post_pad must hold one number");
  check.dim(counts, 1);
  a.counts = list_of_ints(check, counts, counts);
  a.batches = check.small(counts.size(0), "the number of batches");
  a.max_tokens = check.small(max_tokens, "max_tokens_per_batch");
  const std::int64_t room = max_tokens + static_cast<std::int64_t>(a.places.block.divisor) - 1;
  check.small(a.batches * room, "the number of batches times their padded rows");
  a.places.missing = a.batches * a.max_tokens;
  if (counts.device >= 0) return launch(batched_kernel, counts.device, shape_of(a), a);
  align_batches_on_cpu(a);
}

}  // namespace volta
