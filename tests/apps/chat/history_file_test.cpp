#include "apps/chat/history_file.hpp"

#include "tests/support/scratch_folder.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <memory>
#include <sys/resource.h>
#include <thread>

namespace paceline::apps {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The number of entries that a chat would load.
int num_entries(const fs::path& file) {
  const std::unique_ptr<History, decltype(&history_end)> all(history_init(), history_end);
  prepare_history(all.get());
  EXPECT_TRUE(load_history(all.get(), file));
  HistEvent event{};
  int size = 0;
  for (int found = history(all.get(), &event, H_FIRST); found >= 0;
       found = history(all.get(), &event, H_NEXT))
    ++size;
  return size;
}

/// While an object exists, this process cannot write beyond `most` bytes of a file.
class small_files {
 public:
  explicit small_files(rlim_t most) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{most, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~small_files() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  small_files(const small_files&) = delete;
  small_files& operator=(const small_files&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST(history_file, messages_are_appended_in_a_file_of_their_owner) {
  const test::scratch_folder folder;
  const auto file = folder / "below" / "history";
  EXPECT_TRUE(add_to_history(file, "one"));
  EXPECT_TRUE(add_to_history(file, "two\nlines"));
  EXPECT_EQ(num_entries(file), 2);
  EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST(history_file, a_file_that_is_no_history_is_kept) {
  const test::scratch_folder folder;
  const auto file = folder / "history";
  std::ofstream(file) << "of another program\n";
  const auto added = add_to_history(file, "one");
  ASSERT_FALSE(added);
  EXPECT_NE(added.error().message().find(file.string()), std::string::npos);
  EXPECT_EQ(text_of(file), "of another program\n");
}

TEST(history_file, a_full_disk_leaves_the_old_file) {
  const test::scratch_folder folder;
  const auto file = folder / "history";
  ASSERT_TRUE(add_to_history(file, "one"));
  const auto before = text_of(file);
  {
    const small_files limit(before.size());
    EXPECT_FALSE(add_to_history(file, "two"));
  }
  EXPECT_EQ(text_of(file), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1) << "nothing else is left";
}

TEST(history_file, a_link_stays_a_link) {
  const test::scratch_folder folder;
  fs::create_symlink(folder / "elsewhere", folder / "history");
  ASSERT_TRUE(add_to_history(folder / "history", "one"));
  EXPECT_TRUE(fs::is_symlink(folder / "history"));
  EXPECT_EQ(num_entries(folder / "elsewhere"), 1);
}

TEST(history_file, chats_that_write_at_once_lose_nothing) {
  constexpr int each = 100;
  const test::scratch_folder folder;
  const auto file = folder / "history";
  const auto write = [&](const std::string& name) {
    for (int i = 0; i < each; ++i) EXPECT_TRUE(add_to_history(file, name + std::to_string(i)));
  };
  std::thread first(write, "first");
  std::thread second(write, "second");
  write("third");
  first.join();
  second.join();
  EXPECT_EQ(num_entries(file), 3 * each);
}

} // namespace
} // namespace paceline::apps
