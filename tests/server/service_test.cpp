#include "server/service.hpp"

#include "served.hpp"

#include <boost/json/parse.hpp>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace paceline::server {
namespace {

namespace json = boost::json;

const std::string json_body = "Content-Type: application/json\r\nContent-Length: 10\r\n";

TEST(service, decides_on_the_head_alone) {
  served s;
  EXPECT_EQ(s.admit("POST /v1/completions", json_body), 0);
  EXPECT_EQ(s.admit("POST /v1/completions", "Content-Type: application/json\r\n"), 411);
  EXPECT_EQ(s.admit("POST /v1/completions", "Content-Length: 10\r\n"), 415);
  EXPECT_EQ(s.admit("POST /v1/completions", "Content-Type: text/plain\r\nContent-Length: 10\r\n"), 415);
  EXPECT_TRUE(s.closes);
  EXPECT_EQ(s.admit("POST /v1/completions",
                    "Content-Type: Application/JSON; charset=utf-8\r\nContent-Length: 10\r\n"),
            0);
  EXPECT_EQ(
      s.admit("POST /v1/completions", "Content-Type: application/json\r\nContent-Length: 99999999999\r\n"),
      413);
  EXPECT_TRUE(s.closes);
  EXPECT_EQ(s.admit("GET /nothing"), 404);
  EXPECT_FALSE(s.closes);
  EXPECT_EQ(s.admit("DELETE /v1/models"), 405);
  EXPECT_EQ(header_of(s.last.headers, "Allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(s.admit("GET /v1/responses"), 426);
  EXPECT_EQ(s.admit("GET /v1/responses", "Connection: Upgrade\r\nUpgrade: websocket\r\n"), 0);
  EXPECT_EQ(s.admit("GET /livez", "Content-Length: 100000\r\n"), 413);
}

TEST(service, every_refusal_is_json_with_a_request_id) {
  served s;
  for (const auto* line :
       {"GET /nothing", "DELETE /v1/models", "POST /v1/completions", "GET /v1/responses"}) {
    EXPECT_NE(s.admit(line, "x-request-id: mine\r\n"), 0);
    EXPECT_FALSE(s.body().at("error").at("message").as_string().empty()) << line;
    EXPECT_EQ(header_of(s.last.headers, "x-request-id"), "mine");
  }
}

TEST(service, foreign_hosts_and_pages_are_refused) {
  served s;
  EXPECT_EQ(s.admit("GET /v1/models", "Origin: https://evil.com\r\n"), 403);
  EXPECT_EQ(s.admit("GET /v1/responses",
                    "Connection: Upgrade\r\nUpgrade: websocket\r\nOrigin: https://evil.com\r\n"),
            403);
  EXPECT_EQ(s.admit("GET /v1/models", "Origin: http://localhost:8080\r\n"), 0);
  auto foreign = served::head("GET /v1/models");
  foreign.host = "evil.com";
  EXPECT_TRUE(std::holds_alternative<answered_request>(s.requests.admit(foreign)));
}

TEST(service, only_checks_of_health_need_no_host) {
  served s;
  const auto status = [&](const std::string& line) {
    const auto parsed = parse_request_head(line + " HTTP/1.0\r\n\r\n", {});
    const auto decision = s.requests.admit(std::get<head_complete>(parsed).head);
    const auto* answered = std::get_if<answered_request>(&decision);
    return answered != nullptr ? answered->reply.status : 0;
  };
  for (const auto* line : {"GET /livez", "HEAD /readyz", "GET /health", "GET /"})
    EXPECT_EQ(status(line), 0) << line;
  EXPECT_EQ(status("OPTIONS /"), 204) << "HAProxy's own check";
  for (const auto* line :
       {"GET /v1/models", "GET /metrics", "POST /v1/completions", "GET /nothing", "OPTIONS /v1/completions"})
    EXPECT_EQ(status(line), 400) << line;
}

TEST(service, answers_preflights_of_allowed_pages) {
  served s;
  EXPECT_EQ(s.admit("OPTIONS /v1/completions", "Origin: http://localhost:3000\r\n"), 204);
  EXPECT_EQ(header_of(s.last.headers, "Access-Control-Allow-Origin"), "http://localhost:3000");
  EXPECT_EQ(header_of(s.last.headers, "Access-Control-Allow-Methods"), "POST");
  EXPECT_EQ(s.admit("OPTIONS /v1/completions", "Origin: https://evil.com\r\n"), 403);
  EXPECT_EQ(s.admit("OPTIONS /nothing"), 404);
}

TEST(service, preflights_allow_what_openais_browser_client_sends) {
  served s;
  EXPECT_EQ(s.admit("OPTIONS /v1/chat/completions",
                    "Origin: http://localhost:3000\r\nAccess-Control-Request-Method: POST\r\n"
                    "Access-Control-Request-Headers: authorization,content-type,openai-organization,"
                    "X-Stainless-Lang, x-stainless-timeout,x-evil\r\n"),
            204);
  EXPECT_EQ(
      header_of(s.last.headers, "Access-Control-Allow-Headers"),
      "anthropic-beta, anthropic-dangerous-direct-browser-access, anthropic-version, authorization, "
      "content-type, openai-beta, openai-organization, openai-project, user-agent, x-api-key, x-request-id, "
      "x-stainless-lang, x-stainless-timeout");
}

TEST(service, keys_guard_all_but_health) {
  served s({"secret"});
  EXPECT_EQ(s.admit("GET /v1/models"), 401);
  EXPECT_EQ(s.admit("GET /v1/models", "Authorization: Bearer wrong\r\n"), 401);
  EXPECT_EQ(s.admit("GET /v1/models", "Authorization: Bearer secret\r\n"), 0);
  EXPECT_EQ(s.admit("GET /v1/responses", "Connection: Upgrade\r\nUpgrade: websocket\r\n"), 401);
  for (const auto* path : {"GET /livez", "GET /readyz", "GET /healthz", "GET /health", "GET /metrics"})
    EXPECT_EQ(s.admit(path), 0) << path;
  s.change([](edge_settings& settings) { settings.metrics_require_key = true; });
  EXPECT_EQ(s.admit("GET /metrics"), 401);
  EXPECT_EQ(s.edge.metrics.auth_failures, 4U);
}

TEST(service, a_key_may_come_as_anthropics_clients_send_it) {
  served s({"secret"});
  EXPECT_EQ(s.admit("GET /v1/models", "x-api-key: secret\r\n"), 0);
  EXPECT_EQ(s.admit("GET /v1/models", "x-api-key: wrong\r\n"), 401);
  EXPECT_EQ(s.admit("GET /v1/models", "x-api-key: secret\r\nAuthorization: Bearer wrong\r\n"), 401);
}

TEST(service, errors_of_messages_have_anthropics_form) {
  served s({"secret"});
  const std::string key = "x-api-key: secret\r\n";
  const auto error_of = [&] {
    EXPECT_EQ(s.body().at("type"), "error");
    EXPECT_FALSE(s.body().at("error").at("message").as_string().empty());
    return std::string(s.body().at("error").at("type").as_string());
  };
  EXPECT_EQ(s.admit("POST /v1/messages", json_body), 401);
  EXPECT_EQ(error_of(), "authentication_error");
  EXPECT_EQ(s.admit("GET /v1/messages", key), 405);
  EXPECT_EQ(error_of(), "invalid_request_error");
  EXPECT_EQ(s.admit("POST /v1/messages/batches", key + json_body), 404);
  EXPECT_EQ(error_of(), "not_found_error");
  for (const auto* line : {"POST /v1/messages", "POST /v1/messages/count_tokens",
                           "POST /models/bytes/v1/messages", "POST /models/bytes/v1/messages/count_tokens"}) {
    EXPECT_EQ(s.ask(line, key + json_body, "{"), 400);
    EXPECT_EQ(error_of(), "invalid_request_error");
    EXPECT_EQ(s.ask(line, key + json_body,
                    R"({"model":"gpt","max_tokens":1,"messages":[{"role":"user","content":"x"}]})"),
              404);
    EXPECT_EQ(error_of(), "not_found_error");
    s.edge.jobs.full = true;
    EXPECT_EQ(s.ask(line, key + json_body, "{}"), 503);
    EXPECT_EQ(error_of(), "overloaded_error");
    s.edge.jobs.full = false;
  }
  EXPECT_EQ(s.admit("POST /v1/messagesx", key + json_body), 404);
  EXPECT_FALSE(s.body().as_object().contains("type"));
}

TEST(service, counts_the_tokens_of_a_conversation) {
  served s;
  EXPECT_EQ(s.ask("POST /v1/messages/count_tokens", json_body,
                  R"({"system":"ab","messages":[{"role":"user","content":"x"}]})"),
            200);
  EXPECT_EQ(s.body().at("input_tokens").to_number<std::size_t>(),
            std::string_view("system:ab\nuser:x\n").size());
}

TEST(service, a_page_may_offer_its_key_as_a_sub_protocol_of_its_socket) {
  served s({"secret"});
  const std::string upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
  const auto offer = [](const char* key) {
    return std::string("Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.") + key + "\r\n";
  };
  EXPECT_EQ(s.admit("GET /v1/responses", upgrade + offer("secret")), 0);
  EXPECT_EQ(s.admit("GET /v1/responses", upgrade + offer("wrong")), 401);
  EXPECT_EQ(s.admit("GET /v1/responses", upgrade + offer("secret") + "Authorization: Bearer wrong\r\n"), 401);
  EXPECT_EQ(s.admit("GET /v1/responses", upgrade + offer("wrong") + "Authorization: Bearer secret\r\n"), 0);
  EXPECT_EQ(s.admit("GET /v1/responses", upgrade + offer("secret") + "Origin: https://evil.com\r\n"), 403);
  EXPECT_EQ(s.admit("GET /v1/models", offer("secret")), 401) << "only for sockets";
}

TEST(service, lists_models) {
  served s;
  EXPECT_EQ(s.ask("GET /v1/models"), 200);
  EXPECT_EQ(s.body().at("data").at(0).at("id"), "bytes");
  EXPECT_EQ(s.body().at("data").at(0).at("max_model_len").as_int64(), 64);
  EXPECT_EQ(s.body().at("data").at(0).at("created").as_int64(), 1'763'718'000);
  EXPECT_EQ(s.ask("GET /v1/models/alias"), 200);
  EXPECT_EQ(s.ask("GET /v1/models/gpt"), 404);
}

TEST(service, liveness_and_readiness_differ_while_draining) {
  served s;
  EXPECT_EQ(s.ask("GET /livez"), 200);
  EXPECT_EQ(s.ask("GET /readyz"), 200);
  s.requests.begin_drain();
  EXPECT_EQ(s.ask("GET /livez"), 200);
  EXPECT_EQ(s.ask("GET /readyz"), 503);
  EXPECT_EQ(s.ask("POST /v1/completions", json_body, R"({"prompt":"x"})"), 503);
  EXPECT_NE(header_of(s.last.headers, "Retry-After"), "");
  s.edge.engine.alive = false;
  EXPECT_EQ(s.ask("GET /livez"), 503);
}

TEST(service, metrics_can_be_switched_off) {
  served s;
  EXPECT_EQ(s.ask("GET /metrics"), 200);
  EXPECT_NE(s.last.body.find("paceline_build_info"), std::string::npos);
  s.edge.metrics_options.enabled = false;
  EXPECT_EQ(s.ask("GET /metrics"), 404);
}

TEST(service, tells_the_special_tokens) {
  served s;
  EXPECT_EQ(s.ask("GET /tokenizer_info"), 200);
  EXPECT_EQ(s.body().at("bos_token"), "<256>");
  EXPECT_EQ(s.body().at("eos_token"), "<257>");
  EXPECT_TRUE(s.body().at("pad_token").is_null());
  EXPECT_EQ(s.ask("GET /tokenizer_info?model=other"), 404);
  EXPECT_EQ(s.ask("GET /models/alias/tokenizer_info"), 200);
  s.edge.engine.other = std::make_unique<byte_model>("other");
  EXPECT_EQ(s.ask("GET /tokenizer_info"), 400);
  EXPECT_EQ(s.ask("GET /tokenizer_info?model=other"), 200);
  EXPECT_EQ(s.ask("GET /models/other/tokenizer_info"), 200);
  EXPECT_EQ(s.ask("GET /models/gpt/tokenizer_info"), 404);
}

TEST(service, completes_and_counts) {
  served s;
  EXPECT_EQ(s.ask("POST /v1/completions", json_body, R"({"prompt":"x"})"), 0);
  s.edge.engine.end(1, finish_reason::stop, "y");
  s.edge.executor->run();
  EXPECT_EQ(s.channel->replied.value().status, 200);
  EXPECT_EQ(s.ask("POST /v1/completions", json_body, "{"), 400);
  EXPECT_EQ(s.body().at("error").at("code"), "invalid_json");
}

TEST(service, a_full_edge_is_503) {
  served s;
  s.edge.jobs.full = true;
  for (const auto* line :
       {"POST /v1/completions", "POST /v1/chat/completions", "POST /v1/responses", "POST /tokenize"})
    EXPECT_EQ(s.ask(line, json_body, "{}"), 503) << line;
  EXPECT_EQ(s.edge.metrics.edge_rejections, 4U);
}

TEST(service, cancels_and_reads_responses_by_id) {
  served s;
  EXPECT_EQ(
      s.ask("POST /v1/responses", json_body, R"({"input":"x","stream":true,"paceline":{"resumable":true}})"),
      0);
  s.edge.engine.tokens(1, "a");
  s.edge.executor->run();
  const std::string id(json::parse(s.channel->data().at(0)).at("response").at("id").as_string());
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
  EXPECT_EQ(s.ask("POST /v1/responses/" + id + "/cancel"), 404);
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
  EXPECT_EQ(
      s.ask("POST /v1/responses", json_body, R"({"input":"x","stream":true,"paceline":{"resumable":true}})"),
      0);
  s.edge.engine.tokens(1, "a");
  s.edge.executor->run();
  const std::string id(json::parse(s.channel->data().at(0)).at("response").at("id").as_string());
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
