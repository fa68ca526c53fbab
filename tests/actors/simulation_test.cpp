#include "tests/actors/requests.hpp"
#include "tests/support/reference_beam_search.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

namespace paceline {
namespace {

using namespace test;

std::uint64_t num_seeds() {
  const char* wanted = std::getenv("PACELINE_SIMULATION_SEEDS");
  return wanted ? std::strtoull(wanted, nullptr, 10) : 300;
}

struct outcome {
  std::vector<std::vector<token_id>> tokens;
  std::vector<finish_reason> ends;
  std::size_t num_steps = 0;
  std::uint64_t num_preemptions = 0, num_cached = 0; ///< requests preempted, prompt tokens found in the cache
  friend bool operator==(const outcome&, const outcome&) = default;
};

enum class pool_size : std::uint8_t {
  any,
  tight, ///< one to two of the longest requests; few different prompts, some of whole blocks
};

/// Request number `n` of a run with a tight pool: a prompt of whole blocks, which can be completely cached,
/// or a short one, which recomputes what the cache holds.
generation_request recurring_request(std::uint64_t n) {
  const auto max_tokens = 1 + static_cast<std::uint32_t>(n / 8 % 16);
  auto r =
      request_number(static_cast<std::uint32_t>(n % 2), n % 4 < 2 ? 0.0F : 1.0F, n % 8 < 4 ? max_tokens : 32);
  if (n % 8 < 4)
    while (r.prompt.size() < 32) r.prompt.push_back(r.prompt[r.prompt.size() / 2]);
  return r;
}
constexpr std::uint32_t longest_recurring = 49;

/// The same request as a beam search that needs no more cells.
generation_request as_search(generation_request r, std::uint64_t n) {
  const auto like =
      search_number(static_cast<std::uint32_t>(n % 64), 1 + static_cast<std::uint32_t>(n / 64 % 4));
  const auto room = longest_recurring - static_cast<std::uint32_t>(r.prompt.size());
  r.beams = like.beams;
  r.sampling = like.sampling;
  r.stop.stop_ids = like.stop.stop_ids;
  r.stop.max_tokens = std::max(1U, std::min(r.stop.max_tokens, room / r.beams.width));
  return r;
}

/// The credit of clients: unlimited, or few tokens at a time.
class client_credits {
 public:
  client_credits(std::uint64_t seed, bool finite) : random_(~seed), finite_(finite) {}

  std::uint64_t next_request() {
    granted_.push_back(finite_ ? random_() % 5 : std::uint64_t{1} << 30);
    return granted_.back();
  }
  /// A client may grant credit.
  void pass_a_step(simulation& sim) {
    if (!finite_ || granted_.empty() || random_() % 20 != 0) return;
    const auto n = random_() % granted_.size();
    const auto more = 1 + random_() % 6;
    granted_[n] += more;
    sim.grant(n, more);
  }
  std::uint64_t granted(std::size_t n) const { return granted_[n]; }
  /// All clients read from now on.
  void open(simulation& sim) {
    for (std::size_t n = 0; n < granted_.size(); ++n) sim.grant(n, std::uint64_t{1} << 30);
  }

 private:
  std::mt19937_64 random_;
  bool finite_;
  std::vector<std::uint64_t> granted_; ///< by client
};

simulation_options random_options(std::uint64_t seed, bool tight, std::mt19937_64& random) {
  simulation_options options;
  options.seed = seed;
  options.shuffle = true;
  options.two_groups = random() % 2 == 0;
  options.overlap = {static_cast<ahead_mode>(random() % 3)};
  options.num_guesses = 1 + static_cast<std::uint32_t>(random() % 3);
  options.num_partitions = 1 + random() % 2;
  options.block_size = std::array{1U, 4U, 16U}[random() % 3];
  options.num_blocks = (48 + random() % 200) / options.block_size + 3;
  if (tight) {
    const auto one = (longest_recurring + options.block_size - 1) / options.block_size;
    options.num_blocks = one + static_cast<std::uint32_t>(random() % (one + 1));
  }
  options.max_running = 1 + random() % 6;
  options.target = small_target();
  if (seed % 2 == 0) { // slots for one request to several; enough for a beam search alone
    options.target.recurrent = true;
    options.num_state_slots = 12 + static_cast<std::uint32_t>(seed / 2 % 60);
    options.state_interval = options.block_size * (1 + static_cast<std::uint32_t>(seed / 2 % 3));
  }
  return options;
}

std::vector<simulated_drafter> random_drafters(std::mt19937_64& random) {
  std::vector<simulated_drafter> drafters;
  drafters.push_back(
      {drafter_called("half_right", small_target()), 1 + static_cast<std::uint32_t>(random() % 8), 0});
  drafters.push_back(
      {placed(drafter_called("half_right", small_target()), speculation::placement::worker), 3, 1});
  drafters.push_back({drafter_called("model_other", small_target()), 2, 1});
  drafters.push_back({drafter_called("tree", small_target()), 2, 0});
  drafters.push_back({drafter_called("head_dynamic", small_target()), 3, 1});
  drafters.push_back({drafter_called("ppd", small_target()), 3, 0});
  return drafters;
}

/// What happened to the requests of a life.
struct events_of_life {
  std::vector<generation_request> requests;
  std::vector<bool> cancelled;   ///< by client
  std::set<std::size_t> crashed; ///< clients whose session was killed
  bool events_lost = false;      ///< fan_out was killed: streams may end early
};

void expect_promised_end(simulation& sim, const events_of_life& past, std::size_t n, bool tight) {
  const auto& client = sim.client(n);
  const auto& request = past.requests[n];
  const auto plain = request.beams.width == 0 ? decode_plainly(sim.target(), request)
                                              : search_beams(sim.target(), request).best.front().tokens;
  const auto begins_plainly = [&] {
    return std::ranges::equal(client.tokens,
                              std::span(plain).first(std::min(plain.size(), client.tokens.size())));
  };
  EXPECT_EQ(client.num_ends, 1U) << "request " << n;
  EXPECT_FALSE(client.gap) << "request " << n;
  if (client.finish == finish_reason::length || client.finish == finish_reason::stop) {
    EXPECT_EQ(client.tokens, plain) << "request " << n;
  } else if (client.finish == finish_reason::cancelled) {
    EXPECT_TRUE(past.cancelled[n]) << "request " << n;
    EXPECT_TRUE(begins_plainly()) << "request " << n;
  } else if (client.failure->code() == errc::device_lost) {
    EXPECT_TRUE(past.events_lost || past.crashed.contains(n)) << "request " << n;
    EXPECT_TRUE(begins_plainly()) << "request " << n;
  } else {
    EXPECT_FALSE(tight) << "request " << n << ": " << client.failure->message();
    EXPECT_EQ(client.failure->code(), errc::context_length_exceeded) << client.failure->message();
  }
}

/// From here on nothing fails. Records how all requests end, and what remains allocated.
void live_to_the_end(simulation& sim, const events_of_life& past, bool tight, outcome& out) {
  EXPECT_TRUE(sim.run(50'000)) << "not every request ended\n"
                               << sim.scheduler().describe() << "preemptions "
                               << sim.scheduler().counters().num_preemptions << " rounds "
                               << sim.scheduler().counters().num_rounds << " generated "
                               << sim.scheduler().counters().generation_tokens;
  for (std::size_t n = 0; n < past.requests.size(); ++n) {
    expect_promised_end(sim, past, n, tight);
    out.tokens.push_back(sim.client(n).tokens);
    out.ends.push_back(sim.client(n).finish);
  }
  for (std::uint32_t p = 0; p < sim.pools().num_pools(); ++p) {
    const auto usage = sim.pools().usage(kv::pool_id{p});
    EXPECT_EQ(usage.num_active, 0U) << "blocks leaked in pool " << p;
    EXPECT_EQ(usage.num_deferred, 0U) << "blocks of pool " << p << " wait for a watermark that nobody sends";
  }
  if (const auto* states = sim.pools().state_slots(kv::pool_id{0})) {
    EXPECT_EQ(states->num_held(), 0U) << "states leaked";
  }
  EXPECT_EQ(sim.check_invariants(), "");
  out.num_preemptions = sim.scheduler().counters().num_preemptions;
  out.num_cached = sim.scheduler().counters().cached_prompt_tokens;
}

/// One random life of an engine: requests come, leave, pause; actors die; messages and completions come in
/// any order.
outcome live(std::uint64_t seed, pool_size pool = pool_size::any, bool searches = false,
             bool slow_clients = false) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto chance = [&](std::uint64_t one_in) { return random() % one_in == 0; };
  const bool tight = pool == pool_size::tight;
  const auto options = random_options(seed, tight, random);
  simulation sim(options, random_drafters(random));
  static const std::array victims{"target_verifier/0", "draft_worker/0/2", "draft_worker/0/3", "scheduler/0",
                                  "kv_pool"};
  events_of_life past;
  auto& requests = past.requests;
  client_credits credits(seed, slow_clients);
  outcome out;
  const std::size_t num_requests = 3 + random() % 6;
  while (out.num_steps < 50'000) {
    if (requests.size() < num_requests && chance(40)) {
      const auto n = static_cast<std::uint32_t>(requests.size());
      requests.push_back(tight ? recurring_request(random())
                               : request_number(n + static_cast<std::uint32_t>(seed % 5),
                                                chance(2) ? 0.0F : 1.0F,
                                                6 + static_cast<std::uint32_t>(random() % 12)));
      if (searches && chance(2)) requests.back() = as_search(requests.back(), random());
      past.cancelled.push_back(false);
      sim.submit(requests.back(), drafter_index{static_cast<std::uint32_t>(random() % 7)},
                 credits.next_request());
    }
    if (!requests.empty() && chance(400)) {
      const auto n = random() % requests.size();
      sim.cancel(n);
      past.cancelled[n] = true;
    }
    if (chance(300)) sim.kill(victims[random() % victims.size()]);
    // A session's cancellation may be lost with a scheduler. A request without credit then waits for its
    // timeout, which is after the end of this life.
    if (!slow_clients && chance(6000)) sim.kill("fan_out"), past.events_lost = true;
    if (!slow_clients && !requests.empty() && chance(4000)) {
      const auto n = random() % requests.size();
      sim.kill("session/" + std::to_string(n));
      past.crashed.insert(n);
    }
    credits.pass_a_step(sim);
    if (!sim.step() && requests.size() == num_requests) break;
    ++out.num_steps;
    if (out.num_steps % 16 == 0) {
      EXPECT_EQ(sim.check_invariants(), "") << "step " << out.num_steps;
      for (std::size_t n = 0; n < requests.size(); ++n)
        if (requests[n].beams.width == 0) { // a search gets its credit by rounds
          EXPECT_LE(sim.client(n).tokens.size(), credits.granted(n)) << "request " << n;
        }
    }
  }
  credits.open(sim);
  live_to_the_end(sim, past, tight, out);
  return out;
}

TEST(simulation, every_seed_keeps_every_promise) {
  if (const char* only = std::getenv("PACELINE_SIMULATION_SEED")) { // to repeat one that failed
    live(std::strtoull(only, nullptr, 10));
    return;
  }
  for (std::uint64_t seed = 1; seed <= num_seeds() && !HasFailure(); ++seed) live(seed);
}

TEST(simulation, every_seed_keeps_every_promise_in_a_pool_of_one_to_two_requests) {
  std::uint64_t preemptions = 0, cached = 0;
  const auto count = [&](const outcome& o) { preemptions += o.num_preemptions, cached += o.num_cached; };
  if (const char* only = std::getenv("PACELINE_SIMULATION_SEED")) {
    live(std::strtoull(only, nullptr, 10), pool_size::tight);
    return;
  }
  for (std::uint64_t seed = 1; seed <= num_seeds() && !HasFailure(); ++seed)
    count(live(seed, pool_size::tight));
  EXPECT_GT(preemptions, num_seeds() / 10);
  EXPECT_GT(cached, num_seeds());
}

TEST(simulation, every_seed_keeps_every_promise_with_beam_searches) {
  std::uint64_t preemptions = 0;
  for (const auto pool : {pool_size::any, pool_size::tight})
    for (std::uint64_t seed = 1; seed <= num_seeds() && !HasFailure(); ++seed)
      preemptions += live(seed, pool, true).num_preemptions;
  EXPECT_GT(preemptions, num_seeds() / 10);
}

TEST(simulation, every_seed_keeps_every_promise_to_slow_clients) {
  std::uint64_t preemptions = 0;
  for (const auto pool : {pool_size::any, pool_size::tight})
    for (std::uint64_t seed = 1; seed <= num_seeds() && !HasFailure(); ++seed)
      preemptions += live(seed, pool, seed % 4 == 0, true).num_preemptions;
  EXPECT_GT(preemptions, num_seeds() / 20);
}

TEST(simulation, a_seed_replays_to_the_step) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) EXPECT_EQ(live(seed), live(seed)) << "seed " << seed;
}

} // namespace
} // namespace paceline
