#include "apps/bench/door.hpp"
#include "apps/commands/local_engine.hpp"

namespace paceline::apps::bench {

namespace {

using std::chrono::steady_clock;

class engine_connection final : public connection {
 public:
  explicit engine_connection(engine& runtime) : runtime_(runtime) {}

  expected<delivery> ask(const errand& what) override {
    generation_request request;
    request.prompt = what.prompt->tokens;
    request.stop.max_tokens = what.max_tokens;
    request.sampling.temperature = what.temperature;
    request.sampling.seed = what.seed;
    request.speculation.drafter = what.drafter;
    request.speculation.draft_length = what.draft_length;
    request.speculation.overlap = what.overlap;
    request.cache_salt = request.tenant = what.salt;
    request.trace = what.trace;
    delivery out;
    out.sent = steady_clock::now();
    auto got = generate(runtime_, std::move(request), [&out](const token_event& event) {
      if (event.tokens.empty()) return;
      out.arrivals.push_back({steady_clock::now(), static_cast<std::uint32_t>(event.tokens.size())});
      out.num_rounds += event.trace ? 1 : 0;
    });
    out.ended = steady_clock::now();
    if (got.last.failure) return *std::move(got.last.failure);
    if (!got.last.timings) return error(errc::internal, "a generation ended early");
    out.tokens = std::move(got.tokens);
    out.text = std::move(got.text);
    out.speculation = std::move(got.last.speculation);
    return out;
  }

 private:
  engine& runtime_;
};

class engine_door final : public door {
 public:
  explicit engine_door(engine& runtime) : runtime_(runtime) {}
  expected<std::unique_ptr<connection>> connect() override {
    return std::unique_ptr<connection>(std::make_unique<engine_connection>(runtime_));
  }

 private:
  engine& runtime_;
};

} // namespace

std::unique_ptr<door> make_engine_door(engine& runtime) { return std::make_unique<engine_door>(runtime); }

} // namespace paceline::apps::bench
