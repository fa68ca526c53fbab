#include "runtime/model/loader/mapped_file.hpp"
#include "tests/support/scratch_folder.hpp"

#include <gtest/gtest.h>

#include <sys/mman.h>

#include <cstdint>
#include <fstream>
#include <vector>

namespace paceline::model {
namespace {

class mapped_file_test : public testing::Test {
 protected:
  void SetUp() override { std::ofstream(path_, std::ios::binary) << std::string(num_bytes, 'x'); }

  /// Pages of `bytes`, which begin on a page, that the system holds for this mapping.
  static std::size_t num_resident(std::span<const std::byte> bytes) {
    std::ifstream smaps("/proc/self/smaps");
    const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
    bool inside = false;
    for (std::string line; std::getline(smaps, line);) {
      std::uintptr_t first = 0, last = 0;
      if (std::sscanf(line.c_str(), "%zx-%zx", &first, &last) == 2) inside = first <= begin && begin < last;
      std::size_t kib = 0;
      if (inside && std::sscanf(line.c_str(), "Rss: %zu kB", &kib) == 1) return kib * 1024 / 4096;
    }
    return 0;
  }

  static constexpr std::size_t num_bytes = 64 * 4096;
  test::scratch_folder folder_;
  std::filesystem::path path_ = folder_ / "bytes";
};

std::size_t sum(std::span<const std::byte> bytes) {
  std::size_t total = 0;
  for (const std::byte b : bytes) total += std::to_integer<std::size_t>(b);
  return total;
}

TEST_F(mapped_file_test, released_pages_leave_memory_and_come_back_from_the_file) {
  const auto file = *mapped_file::open(path_);
  EXPECT_EQ(sum(file->bytes()), num_bytes * 'x');
  EXPECT_EQ(num_resident(file->bytes()), 64U);
  file->release(file->bytes().subspan(4096, 32 * 4096));
  EXPECT_EQ(num_resident(file->bytes()), 32U);
  EXPECT_EQ(sum(file->bytes()), num_bytes * 'x');
}

TEST_F(mapped_file_test, memory_that_is_not_the_files_is_left_alone) {
  const auto file = *mapped_file::open(path_);
  std::vector<std::byte> other(8 * 4096, std::byte{1});
  file->release(other);
  EXPECT_EQ(sum(other), other.size());
}

} // namespace
} // namespace paceline::model
