#include "runtime/model/kv_cells.hpp"

#include "runtime/base/check.hpp"
#include "runtime/cpu/cpu_device.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

namespace paceline::model {
namespace {

constexpr std::uint32_t num_blocks = 4096, block_size = 16, num_layers = 8;

std::unique_ptr<cpu::cpu_device> one_core() {
  cpu::cpu_device_options options;
  options.partitions.resize(1);
  auto device = cpu::cpu_device::make(options);
  EXPECT_TRUE(device) << device.error().message();
  return *std::move(device);
}

/// Whether the page of `at` is resident.
bool is_resident(const void* at) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  unsigned char resident = 0;
  void* const begin = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(at) / page * page);
  EXPECT_EQ(mincore(begin, 1, &resident), 0);
  return (resident & 1U) != 0;
}

/// The keys, values and scales of one block in all layers.
std::vector<const std::byte*> places_of(const kv_cells& cells, block_id block) {
  std::vector<const std::byte*> all;
  for (const device::kv_layer& layer : cells.layers()) {
    const auto size = traits_of(layer.type).value_bytes;
    all.push_back(static_cast<const std::byte*>(layer.keys) + layer.key_index(block, 0, 0, 0) * size);
    all.push_back(static_cast<const std::byte*>(layer.values) + layer.value_index(block, 0, 0, 0) * size);
    if (layer.key_scales == nullptr) continue;
    for (const float* const scales : {layer.key_scales, layer.value_scales})
      all.push_back(reinterpret_cast<const std::byte*>(scales + layer.scale_index(block, 0, 0)));
  }
  return all;
}

/// The rotary position of a row may be lower than its last visible position, but not lower than the first.
TEST(check_batch, refuses_a_rotary_position_before_the_first) {
  const auto device = one_core();
  const kv_cells cells({1, 1, 16, kv_type::f16}, 2, block_size, device->buffers());
  const std::vector<block_id> blocks{block_id{1}};
  const std::vector<device::sequence_kv> sequences{{blocks}};
  std::vector<device::batch_entry> rows(1);
  rows[0].position = token_position{3}, rows[0].positions_back = 3;
  EXPECT_NO_THROW(check_batch({rows, sequences, {}}, cells));
  rows[0].positions_back = 4;
  EXPECT_THROW(check_batch({rows, sequences, {}}, cells), check_failure);
}

TEST(kv_cells, a_block_touches_one_huge_page_for_all_its_layers) {
  constexpr std::uintptr_t huge_page = 2U << 20;
  const auto device = one_core();
  for (const kv_type type : {kv_type::f16, kv_type::q8}) {
    const kv_cells cells({num_layers, 2, 64, type}, num_blocks, block_size, device->buffers());
    // Its values and its scales; each may cross a page boundary.
    const std::size_t most = traits_of(type).scale_bytes == 0 ? 2 : 4;
    for (std::uint32_t b = 0; b < num_blocks; ++b) {
      std::set<std::uintptr_t> pages;
      for (const auto* const at : places_of(cells, block_id{b}))
        pages.insert(reinterpret_cast<std::uintptr_t>(at) / huge_page);
      ASSERT_LE(pages.size(), most) << b;
    }
  }
}

TEST(kv_cells, the_first_block_has_memory_before_the_first_request) {
  const auto device = one_core();
  const kv_cells cells({num_layers, 2, 64, kv_type::q8}, num_blocks, block_size, device->buffers());
  for (const auto* const at : places_of(cells, block_id{0})) EXPECT_TRUE(is_resident(at));
  EXPECT_FALSE(is_resident(places_of(cells, block_id{num_blocks / 2}).front()))
      << "the rest is taken when used";
}

TEST(kv_cells, layers_and_blocks_do_not_overlap) {
  const auto device = one_core();
  constexpr std::uint32_t some_blocks = 3;
  const kv_cells cells({num_layers, 2, 64, kv_type::q8}, some_blocks, block_size, device->buffers());
  const std::size_t values = std::size_t{2} * 64 * block_size,
                    scales = std::size_t{2} * block_size * sizeof(float);
  for (std::uint32_t b = 0; b < some_blocks; ++b) {
    const auto places = places_of(cells, block_id{b});
    for (std::size_t i = 0; i < places.size(); ++i)
      std::memset(const_cast<std::byte*>(places[i]), static_cast<int>(b * places.size() + i),
                  i % 4 < 2 ? values : scales);
  }
  for (std::uint32_t b = 0; b < some_blocks; ++b) {
    const auto places = places_of(cells, block_id{b});
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::size_t size = i % 4 < 2 ? values : scales;
      const auto mark = static_cast<std::byte>(b * places.size() + i);
      EXPECT_EQ(places[i][0], mark);
      EXPECT_EQ(places[i][size - 1], mark);
    }
  }
}

} // namespace
} // namespace paceline::model
