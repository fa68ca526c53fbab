#include "server/service.hpp"

#include "served.hpp"

#include <boost/json/parse.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace paceline::server {
namespace {

namespace json = boost::json;

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

/// A compilation may take seconds, and large jobs leave an edge thread to other requests.
TEST(service, what_may_compile_a_grammar_is_large_work) {
  served s;
  const auto is_large = [&](const std::string& path, const std::string& members) {
    s.edge.jobs.submitted.clear();
    s.ask("POST " + path, json_body, "{" + members + "}");
    return std::ranges::any_of(s.edge.jobs.submitted, [](const job_traits& one) { return one.large; });
  };
  const std::string chat = R"("messages":[{"role":"user","content":"grammar and tools"}])";
  EXPECT_FALSE(is_large("/v1/chat/completions", chat));
  EXPECT_FALSE(is_large("/v1/responses", R"("input":"\u00e9")"));
  for (const std::string field : {R"("response_format":{"type":"json_object"})", R"("guided_regex":"a")",
                                  R"("grammar":"root ::= \"a\"")", R"("structured_outputs":{"regex":"a"})",
                                  R"("tools":[])", R"("gr\u0061mmar":"x")"}) {
    EXPECT_TRUE(is_large("/v1/chat/completions", chat + "," + field)) << field;
  }
  EXPECT_TRUE(is_large("/v1/completions", R"("prompt":"x","guided_regex":"a")"));
  EXPECT_TRUE(is_large("/v1/messages", chat + R"(,"tools":[])"));
  EXPECT_TRUE(is_large("/v1/responses", R"("input":"x","text":{"format":{"type":"json_object"}})"));
}

} // namespace
} // namespace paceline::server
