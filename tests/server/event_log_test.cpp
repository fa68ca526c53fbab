#include "server/event_log.hpp"
#include "tests/support/scratch_folder.hpp"

#include <boost/json/parse.hpp>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <thread>

namespace paceline::server {
namespace {

using config::log_format;
using config::log_level;
using std::chrono::milliseconds;

std::string lines_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct log_file {
  test::scratch_folder folder;
  std::string path = folder / "events";
};

TEST(event_log, text_lines_have_time_level_message_and_fields) {
  EXPECT_EQ(format_line(log_format::text, milliseconds(1'700'000'000'042), log_level::info, "draining",
                        {{"timeout_ms", 30000}, {"reason", "a \"quoted\"\nword"}, {"empty", ""}}),
            "2023-11-14T22:13:20.042Z info draining timeout_ms=30000 reason=\"a \\\"quoted\\\"\\nword\" "
            "empty=\"\"");
}

TEST(event_log, what_others_wrote_cannot_begin_a_line) {
  for (const auto format : {log_format::text, log_format::json})
    EXPECT_EQ(format_line(format, milliseconds(0), log_level::info, "a\nb", {{"c", "d\ne"}}).find('\n'),
              std::string::npos);
}

TEST(event_log, json_lines_are_objects_however_long_their_fields) {
  for (const std::size_t size : {10U, 5000U, 100'000U}) {
    const auto line =
        format_line(log_format::json, milliseconds(42), log_level::error, std::string(size, 'm'),
                    {{"text", std::string(size, '\x01')}, {"number", 7}});
    EXPECT_LT(line.size(), 4096U);
    const auto parsed = boost::json::parse(line);
    EXPECT_EQ(parsed.at("level"), "error");
    EXPECT_EQ(parsed.at("time"), "1970-01-01T00:00:00.042Z");
    if (size == 10) {
      EXPECT_EQ(parsed.at("number"), 7);
    }
  }
}

TEST(event_log, lines_below_the_level_are_left_out) {
  log_file file;
  const auto log = event_log::open({log_level::warning, log_format::text, file.path}).value();
  log->write(log_level::info, "unseen");
  log->write(log_level::error, "seen");
  log->set_level(log_level::off);
  log->write(log_level::error, "unseen");
  log->set_level(log_level::debug);
  log->write(log_level::debug, "seen");
  const auto text = lines_of(file.path);
  EXPECT_EQ(text.find("unseen"), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_EQ(log->num_dropped(), 0U);
}

TEST(event_log, a_file_that_was_moved_away_is_made_anew) {
  log_file file;
  const auto log = event_log::open({log_level::info, log_format::text, file.path}).value();
  log->write(log_level::info, "first");
  std::filesystem::rename(file.path, file.path + ".1");
  ASSERT_TRUE(log->reopen());
  log->write(log_level::info, "second");
  EXPECT_NE(lines_of(file.path).find("second"), std::string::npos);
  EXPECT_NE(lines_of(file.path + ".1").find("first"), std::string::npos);
}

TEST(event_log, a_file_that_cannot_be_opened_is_an_error_that_names_it) {
  const auto log = event_log::open({log_level::info, log_format::text, "/nowhere/log"});
  ASSERT_FALSE(log);
  EXPECT_NE(log.error().message().find("logging.file: /nowhere/log"), std::string::npos);
}

TEST(event_log, a_reader_that_does_not_read_costs_lines_and_no_time) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  {
    const auto log = event_log::open({log_level::info, log_format::text, ""}, pipe[1]).value();
    const std::string text(1000, 'x');
    std::vector<std::jthread> writers;
    for (int i = 0; i < 4; ++i)
      writers.emplace_back([&] {
        for (int j = 0; j < 200; ++j) log->write(log_level::info, text); // far more than a pipe holds
      });
    writers.clear();
    EXPECT_GT(log->num_dropped(), 0U);
    EXPECT_LT(log->num_dropped(), 800U);
    std::string read(1 << 20, '\0');
    read.resize(static_cast<std::size_t>(::read(pipe[0], read.data(), read.size())));
    EXPECT_EQ(read.back(), '\n'); // whole lines only
    const auto dropped = log->num_dropped();
    log->write(log_level::info, "room again");
    EXPECT_EQ(log->num_dropped(), dropped);
  }
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST(event_log, a_full_disk_costs_lines_only) {
  const auto log = event_log::open({log_level::info, log_format::text, "/dev/full"}).value();
  log->write(log_level::info, "lost");
  EXPECT_EQ(log->num_dropped(), 1U);
}

} // namespace
} // namespace paceline::server
