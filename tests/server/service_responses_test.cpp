// The endpoints that create, read, cancel and delete responses.
#include "server/service.hpp"

#include "served.hpp"

#include <boost/json/parse.hpp>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::server {
namespace {

namespace json = boost::json;

/// Begins a resumable response, which has the token "a", and returns its id.
std::string begin_resumable(served& s) {
  EXPECT_EQ(
      s.ask("POST /v1/responses", json_body, R"({"input":"x","stream":true,"paceline":{"resumable":true}})"),
      0);
  s.edge.engine.tokens(1, "a");
  s.edge.executor->run();
  return std::string(json::parse(s.channel->data().at(0)).at("response").at("id").as_string());
}

TEST(service, cancels_and_reads_responses_by_id) {
  served s;
  const auto id = begin_resumable(s);
  EXPECT_EQ(s.ask("GET /v1/responses/" + id), 200);
  EXPECT_EQ(s.body().at("status"), "in_progress");
  EXPECT_TRUE(s.body().at("output").as_array().empty());
  EXPECT_EQ(s.ask("POST /v1/responses/" + id + "/cancel"), 200);
  EXPECT_EQ(s.body().at("status"), "cancelled");
  EXPECT_EQ(s.body().at("id").as_string(), id);
  EXPECT_TRUE(s.body().at("model").is_string()) << "it is a response object";
  EXPECT_TRUE(s.body().at("usage").is_null()) << "which is not known yet";
  EXPECT_TRUE(s.edge.engine.submissions.at(1).cancelled);
  s.edge.engine.end(1, finish_reason::cancelled);
  s.edge.executor->run();
  EXPECT_EQ(s.ask("GET /v1/responses/" + id), 200);
  EXPECT_EQ(s.body().at("status"), "cancelled");
  EXPECT_EQ(s.ask("GET /v1/responses/" + id + "?stream=true&starting_after=-1"), 400);
  EXPECT_EQ(s.ask("GET /v1/responses/" + id + "?stream=true&next_token=1"), 0);
  EXPECT_EQ(s.channel->data().back(), "[DONE]");
  EXPECT_EQ(s.ask("GET /v1/responses/resp_unknown"), 404);
}

/// Makes a response to `members`, which answers `text`. Returns its id.
std::string respond(served& s, std::uint64_t number, const std::string& members, std::string_view text,
                    std::string_view headers = "") {
  EXPECT_EQ(s.ask("POST /v1/responses", json_body + std::string(headers), "{" + members + "}"), 0);
  s.edge.engine.end(number, finish_reason::stop, text);
  s.edge.executor->run();
  return std::string(json::parse(s.channel->replied.value().body).at("id").as_string());
}

std::string continuing(const std::string& id, const std::string& input) {
  return R"("input":")" + input + R"(","previous_response_id":")" + id + "\"";
}

TEST(service, counts_the_tokens_of_a_response_and_what_it_continues) {
  served s;
  const auto counted = [&](const std::string& previous) {
    const int status = s.ask("POST /v1/responses/input_tokens", json_body,
                             R"({"instructions":"ab","input":"x")" + previous + "}");
    return status == 200 ? s.body().at("input_tokens").to_number<std::size_t>() : 0;
  };
  const std::string_view own = "system:ab\nuser:x\n";
  EXPECT_EQ(counted(""), own.size());
  EXPECT_EQ(s.body().at("object").as_string(), "response.input_tokens");
  EXPECT_EQ(counted(R"(,"previous_response_id":"resp_unknown")"), 0U);
  const auto id = respond(s, 1, R"("input":"before")", "so");
  EXPECT_EQ(counted(R"(,"previous_response_id":")" + id + "\""),
            own.size() + std::string_view("user:before\nassistant:so\n").size());
}

TEST(service, a_response_is_continued_read_and_deleted_over_http) {
  served s;
  const auto first = respond(s, 1, R"("input":"one","instructions":"brief")", "1");
  const auto second = respond(s, 2, continuing(first, "two"), "2");
  respond(s, 3, continuing(second, "three"), "3");
  EXPECT_EQ(s.edge.engine.bytes.decode(s.edge.engine.submissions.at(3).request.prompt, true),
            "user:one\nassistant:1\nuser:two\nassistant:2\nuser:three\n");
  EXPECT_EQ(s.ask("GET /v1/responses/" + second), 200);
  EXPECT_EQ(s.body().at("previous_response_id").as_string(), first);
  EXPECT_EQ(s.body().at("output").at(0).at("content").at(0).at("text"), "2");
  EXPECT_EQ(s.ask("GET /v1/responses/" + second + "?stream=true"), 400);
  EXPECT_EQ(s.body().at("error").at("code"), "resume_point_lost");

  EXPECT_EQ(s.ask("GET /v1/responses/" + second + "/input_items?order=asc&limit=2"), 200);
  EXPECT_EQ(s.body().at("data").at(1).at("content").at(0).at("text"), "1");
  EXPECT_EQ(s.body().at("has_more"), true);
  for (const auto* query : {"limit=0", "limit=101", "limit=x", "order=up", "after=none"})
    EXPECT_EQ(s.ask("GET /v1/responses/" + second + "/input_items?" + query), 400) << query;
  EXPECT_EQ(s.ask("GET /v1/responses/resp_unknown/input_items"), 404);

  EXPECT_EQ(s.ask("DELETE /v1/responses/" + first), 200);
  EXPECT_EQ(s.body(), json::value({{"id", first}, {"object", "response"}, {"deleted", true}}));
  EXPECT_EQ(s.ask("DELETE /v1/responses/" + first), 404);
  EXPECT_EQ(s.ask("GET /v1/responses/" + first), 404);
  EXPECT_EQ(s.ask("POST /v1/responses", json_body, "{" + continuing(first, "x") + "}"), 400);
  EXPECT_EQ(s.body().at("error").at("code"), "previous_response_not_found");
  EXPECT_EQ(s.ask("GET /v1/responses/" + second), 200) << "it has the whole conversation";
}

TEST(service, a_cancel_that_comes_after_the_end_returns_the_response) {
  served s({"k", "other"});
  const std::string own = "Authorization: Bearer k\r\n";
  const std::string other = "Authorization: Bearer other\r\n";
  const auto id = respond(s, 1, R"("input":"x")", "ab", own);
  EXPECT_EQ(s.ask("GET /v1/responses/" + id, own), 200);
  const auto whole = s.body();
  EXPECT_EQ(s.ask("POST /v1/responses/" + id + "/cancel", own), 200);
  EXPECT_EQ(s.body(), whole);
  EXPECT_EQ(whole.at("status"), "completed");
  EXPECT_EQ(s.ask("POST /v1/responses/" + id + "/cancel", other), 404);

  const auto not_stored = R"("input":"x","store":false)";
  const auto resumable =
      respond(s, 2, std::string(not_stored) + R"(,"paceline":{"resumable":true})", "c", own);
  EXPECT_EQ(s.ask("POST /v1/responses/" + resumable + "/cancel", own), 200);
  EXPECT_EQ(s.body().at("output").at(0).at("content").at(0).at("text"), "c");
  const auto forgotten = respond(s, 3, not_stored, "d", own);
  EXPECT_EQ(s.ask("POST /v1/responses/" + forgotten + "/cancel", own), 404);
  EXPECT_EQ(s.body().at("error").at("code"), "response_not_found");
}

TEST(service, a_response_is_not_stored_if_the_client_does_not_want_it_or_it_failed) {
  served s;
  const auto id = respond(s, 1, R"("input":"one","store":false)", "1");
  EXPECT_EQ(s.ask("GET /v1/responses/" + id), 404);
  EXPECT_EQ(s.ask("POST /v1/responses", json_body, "{" + continuing(id, "x") + "}"), 400);
  EXPECT_EQ(s.ask("POST /v1/responses", json_body, R"({"input":"x","stream":true})"), 0);
  s.edge.engine.tokens(2, "a");
  s.edge.executor->run();
  const std::string failed(json::parse(s.channel->data().at(0)).at("response").at("id").as_string());
  s.edge.engine.fail(2, errc::internal);
  s.edge.executor->run();
  EXPECT_EQ(s.ask("GET /v1/responses/" + failed), 404);
}

TEST(service, stored_responses_expire_and_belong_to_their_key) {
  served s({"k", "other"});
  const auto key = [](const char* name) { return std::string("Authorization: Bearer ") + name + "\r\n"; };
  const auto id = respond(s, 1, R"("input":"one")", "1", key("k"));
  EXPECT_EQ(s.ask("GET /v1/responses/" + id, key("k")), 200);
  EXPECT_EQ(s.ask("GET /v1/responses/" + id, key("other")), 404);
  EXPECT_EQ(s.ask("DELETE /v1/responses/" + id, key("other")), 404);
  EXPECT_EQ(s.ask("POST /v1/responses", json_body + key("other"), "{" + continuing(id, "x") + "}"), 400);
  s.edge.now += std::chrono::hours(1);
  EXPECT_EQ(s.ask("GET /v1/responses/" + id, key("k")), 404);
  EXPECT_EQ(s.ask("POST /v1/responses", json_body + key("k"), "{" + continuing(id, "x") + "}"), 400);
}

TEST(service, a_resumable_response_is_deleted_once_it_has_ended) {
  served s;
  const auto id = begin_resumable(s);
  EXPECT_EQ(s.ask("DELETE /v1/responses/" + id), 409);
  s.edge.engine.end(1, finish_reason::stop);
  s.edge.executor->run();
  EXPECT_EQ(s.ask("DELETE /v1/responses/" + id), 200);
  EXPECT_EQ(s.ask("GET /v1/responses/" + id), 404);
}

TEST(service, a_long_conversation_is_rendered_and_counted_as_large_work) {
  served s;
  s.edge.engine.bytes.set_context_length(200'000);
  const auto id = respond(s, 1, R"("input":")" + std::string(100'000, 'x') + "\"", "1");
  const auto submitted = [&] { return std::exchange(s.edge.jobs.submitted, {}); };
  submitted();
  const auto judge = [](const std::vector<job_traits>& jobs) {
    ASSERT_EQ(jobs.size(), 2U);
    EXPECT_FALSE(jobs[0].large);
    EXPECT_TRUE(jobs[1].large && jobs[1].continues);
  };
  EXPECT_EQ(s.ask("POST /v1/responses/input_tokens", json_body, "{" + continuing(id, "two") + "}"), 200);
  judge(submitted());
  respond(s, 2, continuing(id, "two"), "2");
  judge(submitted());
}

} // namespace
} // namespace paceline::server
