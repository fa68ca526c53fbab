#include "runtime/model/loader/partial_file.hpp"
#include "tests/support/scratch_folder.hpp"

#include <gtest/gtest.h>

#include <sys/mman.h>

#include <cstdint>
#include <fstream>
#include <vector>

namespace paceline::model {
namespace {

class partial_file_test : public testing::Test {
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

TEST_F(partial_file_test, what_was_read_takes_memory_until_it_is_released) {
  const auto file = *partial_file::open(path_);
  EXPECT_EQ(file->bytes().size(), num_bytes);
  EXPECT_EQ(num_resident(file->bytes()), 0U);
  ASSERT_TRUE(file->read(file->bytes()));
  EXPECT_EQ(sum(file->bytes()), num_bytes * 'x');
  EXPECT_EQ(num_resident(file->bytes()), 64U);
  const auto part = file->bytes().subspan(4096, 32 * 4096);
  file->release(part);
  EXPECT_EQ(num_resident(file->bytes()), 32U);
  ASSERT_TRUE(file->read(part));
  EXPECT_EQ(sum(file->bytes()), num_bytes * 'x');
}

TEST_F(partial_file_test, only_the_bytes_asked_for_are_read) {
  const auto file = *partial_file::open(path_);
  ASSERT_TRUE(file->read(file->bytes().subspan(100, 7)));
  EXPECT_EQ(sum(file->bytes()), 7 * 'x');
}

TEST_F(partial_file_test, memory_that_is_not_the_files_is_left_alone) {
  const auto file = *partial_file::open(path_);
  std::vector<std::byte> other(8 * 4096, std::byte{1});
  file->release(other);
  EXPECT_TRUE(file->read(other));
  EXPECT_EQ(sum(other), other.size());
}

TEST_F(partial_file_test, a_file_cut_short_gives_what_is_left_and_an_error_that_names_it) {
  const auto file = *partial_file::open(path_);
  std::filesystem::resize_file(path_, 10 * 4096 + 5);
  EXPECT_TRUE(file->read(file->bytes().first(10 * 4096 + 5)));
  for (const std::size_t begin : {std::size_t{0}, std::size_t{10 * 4096}, std::size_t{40 * 4096}}) {
    const auto failed = file->read(file->bytes().subspan(begin));
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code(), errc::invalid_file);
    EXPECT_NE(failed.error().message().find(path_.string() + ": was cut short"), std::string::npos);
  }
  std::filesystem::remove(path_); // like a file replaced by renaming: the open file stays complete
  EXPECT_TRUE(file->read(file->bytes().first(4096)));
}

} // namespace
} // namespace paceline::model
