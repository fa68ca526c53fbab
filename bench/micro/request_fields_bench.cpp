// What it costs to parse a usual chat request, a long one, and hostile ones of 8 MiB.
#include "protocol/wire/client_requests.hpp"

#include <benchmark/benchmark.h>

#include <string>

namespace paceline::wire {
namespace {

const std::string usual =
    R"({"model":"default","messages":[{"role":"system","content":"You are"},{"role":"user","content":"Hello"}],)"
    R"("temperature":0.7,"top_p":0.9,"max_tokens":64,"stream":true,"seed":7,"stop":["a"]})";

/// A request of 8 MiB that repeats `member`, with its number in place of '#'.
std::string filled(std::string member) {
  std::string body = R"({"messages":[{"role":"user","content":"x"}])";
  const auto place = member.find('#');
  for (unsigned i = 0; body.size() < (8U << 20U) - 100; ++i) {
    auto next = member;
    if (place != std::string::npos) next.replace(place, 1, std::to_string(i));
    body.append(",").append(next);
  }
  return body + "}";
}

std::string many_messages() {
  std::string body = R"({"messages":[)";
  for (int i = 0; i < 4096; ++i)
    body.append(i > 0 ? "," : "").append(R"({"role":"user","content":")").append(2000, 'x').append("\"}");
  return body + "]}";
}

void parse(benchmark::State& state, const std::string& body) {
  if (const auto request = parse_chat_request(body, {}); !request)
    return state.SkipWithError(request.failure().message.c_str());
  for (auto _ : state) benchmark::DoNotOptimize(parse_chat_request(body, {}));
  state.SetBytesProcessed(static_cast<std::int64_t>(body.size()) * state.iterations());
}

BENCHMARK_CAPTURE(parse, usual, usual);
BENCHMARK_CAPTURE(parse, messages, many_messages())->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(parse, unknown_names, filled(R"("x#":1)"))->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(parse, one_unknown_name, filled(R"("a":1)"))->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(parse, one_known_name, filled(R"("n":1)"))->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(parse, escaped_name, filled(R"("\u0061":1)"))->Unit(benchmark::kMillisecond);

} // namespace
} // namespace paceline::wire

BENCHMARK_MAIN();
