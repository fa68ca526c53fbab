#include "apps/top/top_figures.hpp"

#include "apps/top/text_layout.hpp"

#include <boost/json/parse.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

namespace paceline::apps {
namespace {

TEST(metric_samples, reads_names_labels_and_values) {
  const auto samples = metric_samples::parse("# HELP a A.\n# TYPE a counter\n"
                                             "a 3\n"
                                             "b{model=\"x\",drafter=\"n\"} 1.5e3\n"
                                             "b{model=\"y\",drafter=\"n\"} 2\n"
                                             "c{name=\"a \\\"b\\\\ \\n}\"} 7\n");
  EXPECT_EQ(samples.sum("a"), 3);
  EXPECT_EQ(samples.sum("b"), 1502);
  EXPECT_EQ(samples.sum("b", {{"model", "y"}}), 2);
  EXPECT_EQ(samples.sum("b", {{"model", "z"}}), 0);
  EXPECT_EQ(samples.values("b", "model"), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(samples.values("c", "name"), (std::vector<std::string>{"a \"b\\ \n}"}));
}

TEST(metric_samples, skips_what_is_no_sample) {
  const auto samples = metric_samples::parse("<html>\n\na{b=\"c 1\na{b=\"c\\\na{ 1\na x\na\n{} 1\na 5");
  EXPECT_EQ(samples.sum("a"), 5);
}

const char* metrics_at(bool later) {
  return later ? "paceline_build_info{version=\"1.2\"} 1\n"
                 "paceline_requests_running{model=\"m\"} 2\npaceline_requests_waiting{model=\"m\"} 1\n"
                 "paceline_generation_tokens_total{model=\"m\"} 300\npaceline_rounds_total{model=\"m\"} 80\n"
                 "paceline_draft_rounds_total{model=\"m\",drafter=\"ngram\"} 40\n"
                 "paceline_draft_tokens_total{model=\"m\",drafter=\"ngram\"} 200\n"
                 "paceline_accepted_tokens_total{model=\"m\",drafter=\"ngram\"} 140\n"
                 "paceline_draft_tokens_total{model=\"m\",drafter=\"suffix\"} 10\n"
                 "paceline_accepted_tokens_total{model=\"m\",drafter=\"suffix\"} 5\n"
                 "paceline_kv_blocks{model=\"m\",pool=\"m\",state=\"active\"} 5\n"
                 "paceline_kv_blocks{model=\"m\",pool=\"m\",state=\"cached\"} 3\n"
                 "paceline_kv_blocks{model=\"m\",pool=\"m\",state=\"deferred\"} 1\n"
                 "paceline_kv_blocks{model=\"m\",pool=\"m\",state=\"free\"} 11\n"
                 "process_start_time_seconds 1000\npaceline_load_progress 1\n"
               : "paceline_requests_running{model=\"m\"} 0\n"
                 "paceline_generation_tokens_total{model=\"m\"} 100\npaceline_rounds_total{model=\"m\"} 30\n"
                 "paceline_draft_rounds_total{model=\"m\",drafter=\"ngram\"} 20\n"
                 "paceline_draft_tokens_total{model=\"m\",drafter=\"ngram\"} 100\n"
                 "paceline_accepted_tokens_total{model=\"m\",drafter=\"ngram\"} 60\n"
                 "paceline_draft_tokens_total{model=\"m\",drafter=\"suffix\"} 10\n"
                 "paceline_accepted_tokens_total{model=\"m\",drafter=\"suffix\"} 5\n";
}

const char* snapshot = R"({"state":"serving","num_streams":70,"streams":[
  {"model":"m","age_ms":2000,"prompt_tokens":7,"output_tokens":40,"rounds":10}]})";

top_sample sample(bool later) {
  return {later ? 14.0 : 12.0, later ? 4700.0 : 4698.0, metric_samples::parse(metrics_at(later)),
          boost::json::parse(snapshot).as_object()};
}

TEST(top_figures, rates_are_those_of_the_interval) {
  const auto f = figures_between(sample(false), sample(true));
  EXPECT_EQ(f.version, "1.2");
  EXPECT_EQ(f.uptime, 3700);
  EXPECT_EQ(f.num_streams, 70U);
  ASSERT_EQ(f.models.size(), 1U);
  const auto& m = f.models.front();
  EXPECT_EQ(m.running, 2U);
  EXPECT_EQ(m.waiting, 1U);
  EXPECT_EQ(m.tokens_per_second, 100);
  EXPECT_EQ(m.rounds_per_second, 25);
  EXPECT_EQ(m.acceptance, 0.8);
  ASSERT_EQ(m.drafters.size(), 2U);
  EXPECT_EQ(m.drafters[0].drafted_per_second, 50);
  EXPECT_EQ(m.drafters[0].rounds_per_second, 10);
  EXPECT_EQ(m.drafters[0].acceptance, 0.8);
  EXPECT_EQ(m.drafters[0].acceptance_so_far, 0.7);
  EXPECT_EQ(m.drafters[1].acceptance, std::nullopt) << "it drafted nothing meanwhile";
  EXPECT_EQ(m.drafters[1].acceptance_so_far, 0.5);
  ASSERT_EQ(m.pools.size(), 1U);
  EXPECT_EQ(m.pools[0].active, 5U);
  EXPECT_EQ(m.pools[0].all, 20U);
  ASSERT_EQ(f.streams.size(), 1U);
  EXPECT_EQ(f.streams[0].age, 2);
}

TEST(top_figures, a_daemon_that_was_started_again_has_no_negative_rates) {
  const auto f = figures_between(sample(true), {16, 4702, metric_samples::parse(metrics_at(false)), {}});
  EXPECT_EQ(f.models.front().tokens_per_second, 0);
  EXPECT_EQ(f.state, "");
}

TEST(top_figures, text_shows_models_drafters_pools_and_streams) {
  const auto text = to_text(figures_between(sample(false), sample(true)), "http://h:1", 200);
  for (const auto* part : {"paceline 1.2 at http://h:1, serving, up 1 h 01 min", "streams: 70, ",
                           "drafter ngram", "accepted  80 % (70 % since the start)",
                           "[#####+++............] 5 active, 3 cached, 11 free of 20 blocks", "4.00\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(top_figures, lines_stay_within_the_terminal) {
  const auto text = to_text(figures_between(sample(false), sample(true)), "http://h:1", 40);
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = text.find('\n', begin);
    EXPECT_LE(end - begin, 40U);
    begin = end + 1;
  }
}

/// Words and numbers, without punctuation.
std::set<std::string> words_of(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == ',' || c == '(' || c == ')'; }, ' ');
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

/// Figures with numbers of many digits.
top_figures large_figures() {
  auto figures = figures_between(sample(false), sample(true));
  auto& model = figures.models.front();
  model.name = "Qwen2.5-Coder-0.5B-Instruct";
  model.tokens_per_second = 12345.6;
  model.pools.front() = {"prediction", 1234, 1235, 1627, 4096};
  return figures;
}

/// The line of `text` that begins with `begin`.
std::string line_with(const std::string& text, const std::string& begin) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(begin)) return line;
  return {};
}

TEST(top_figures, a_usual_terminal_shows_every_column) {
  const auto text = to_text(large_figures(), "http://127.0.0.1:8080", 80);
  const auto row = line_with(text, "Qwen2.5-Cod ");
  EXPECT_TRUE(row.ends_with("493.82      80 %")) << text;
  EXPECT_TRUE(line_with(text, "MODEL").ends_with("ACCEPTED")) << text;
  EXPECT_NE(text.find("] 1234 active, 1235 cached, 1627 free of 4096 blocks\n"), std::string::npos) << text;
  EXPECT_TRUE(line_with(text, "STREAM OF").ends_with("TOKENS/ROUND")) << text;
}

TEST(top_figures, a_narrow_terminal_gets_less_but_no_wrong_numbers) {
  const auto figures = large_figures();
  const auto all = words_of(to_text(figures, "http://h:1", 1000));
  for (std::size_t columns = 32; columns < 120; ++columns) {
    const auto text = to_text(figures, "http://h:1", columns);
    for (const auto& word : words_of(text))
      EXPECT_TRUE(all.contains(word) || word.find_first_of("[Qp") == 0) << word << "\n" << text;
    for (const auto* part : {"12345.6", "80 %", "1234 active"})
      EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(to_text(figures, "http://h:1", 76).find("PROMPT/S"), std::string::npos)
      << "the first to be left out";
  EXPECT_NE(to_text(figures, "http://h:1", 76).find("ROUNDS/S"), std::string::npos);
}

TEST(top_figures, names_of_any_characters_keep_the_columns) {
  auto figures = figures_between(sample(false), sample(true));
  figures.models.front().name = "mod\u00e8le \x1b[2J\n\u20ac";
  const auto text = to_text(figures, "http://h:1", 200);
  const auto row = line_with(text, "mod\u00e8le \uFFFD[2J\uFFFD\u20ac ");
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(display_width(row), display_width(line_with(text, "MODEL"))) << text;
}

TEST(top_figures, json_is_one_line) {
  const auto line = to_json_line(figures_between(sample(false), sample(true)), "http://h:1");
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto read = boost::json::parse(line).as_object();
  const auto& model = read.at("models").at(0).as_object();
  EXPECT_EQ(model.at("tokens_per_second").to_number<double>(), 100);
  EXPECT_TRUE(model.at("drafters").at(1).at("acceptance").is_null());
  EXPECT_EQ(model.at("pools").at(0).at("num_blocks").to_number<int>(), 20);
}

} // namespace
} // namespace paceline::apps
