// What a usual request head of about 400 bytes costs to parse, and the head of its reply to write.
#include "server/http/http_writer.hpp"
#include "server/http/request_head.hpp"

#include <benchmark/benchmark.h>

#include <string>
#include <variant>

namespace paceline::server {
namespace {

const std::string usual_head = "POST /v1/chat/completions?stream=true HTTP/1.1\r\n"
                               "Host: inference.example.com:8080\r\n"
                               "Accept: application/json\r\n"
                               "Accept-Encoding: gzip, deflate\r\n"
                               "Connection: keep-alive\r\n"
                               "User-Agent: OpenAI/Python 3.52.0\r\n"
                               "Authorization: Bearer sk-0123456789abcdef0123456789abcdef\r\n"
                               "X-Stainless-Lang: python\r\n"
                               "X-Stainless-Package-Version: 3.52.0\r\n"
                               "Content-Type: application/json\r\n"
                               "Content-Length: 1234\r\n\r\n";

void parse(benchmark::State& state) {
  if (!std::holds_alternative<head_complete>(parse_request_head(usual_head, {})))
    return state.SkipWithError("the head was refused");
  for (auto _ : state) benchmark::DoNotOptimize(parse_request_head(usual_head, {}));
  state.counters["bytes"] = static_cast<double>(usual_head.size());
}

/// A client that sends a byte at a time.
void parse_growing(benchmark::State& state) {
  for (auto _ : state)
    for (std::size_t size = 1; size <= usual_head.size(); ++size)
      benchmark::DoNotOptimize(parse_request_head(std::string_view(usual_head).substr(0, size), {}));
}

void write(benchmark::State& state) {
  http_reply reply;
  reply.headers = {{"x-request-id", "req_0123456789abcdef0123456789abcdef"}, {"x-model", "smollm2"}};
  reply.body = std::string(500, 'x');
  for (auto _ : state) benchmark::DoNotOptimize(write_reply(reply, true, false, 0));
}

void chunk(benchmark::State& state) {
  const std::string event(300, 'x');
  for (auto _ : state) benchmark::DoNotOptimize(write_chunk(event));
}

BENCHMARK(parse);
BENCHMARK(parse_growing);
BENCHMARK(write);
BENCHMARK(chunk);

} // namespace
} // namespace paceline::server

BENCHMARK_MAIN();
