// Random commands to a pool manager, checked against what a device would hold. The file is long because its
// one class is: every command uses the same few members, and a failing sequence is followed from command to
// command.
#include "runtime/base/check.hpp"
#include "runtime/kv/pool_manager.hpp"
#include "tests/runtime/kv/shadow_device.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

namespace paceline::kv {
namespace {

/// Random commands on one or two pools, under one budget or each in a space of its own, compared with shadow
/// devices. After every command the invariants hold, and every final cell of every request has the content
/// that its committed tokens require.
class random_run {
 public:
  explicit random_run(std::uint64_t seed) : random_(seed) {
    constexpr std::uint32_t sizes[] = {1, 4, 16};
    const auto num_pools = 1 + below(2);
    std::vector<std::uint64_t> budgets(1 + below(num_pools));
    std::vector<pool_config> configs;
    for (std::uint32_t i = 0; i < num_pools; ++i) {
      pool_config c{.name = "pool" + std::to_string(i),
                    .num_blocks = 8 + below(57),
                    .block_size = sizes[below(3)],
                    .block_bytes = 1 + below(3),
                    .slab_blocks = below(3) == 0 ? 1 : 1 + below(9),
                    .prefix_cache = below(8) != 0,
                    .separate_origins = below(2) == 0};
      c.min_blocks = below(c.num_blocks / 2);
      if (below(2) == 0) c.num_state_slots = 3 + below(20);
      c.space = i % static_cast<std::uint32_t>(budgets.size());
      // At least the minima, rounded up; about half of what all pools together could use.
      budgets[c.space] +=
          (c.min_blocks + c.slab_blocks) * c.block_bytes + below(c.num_blocks) * c.block_bytes;
      configs.push_back(c);
    }
    manager_.emplace(budgets, below(2) == 0 ? four_bit_hasher() : make_block_hasher());
    for (const auto& c : configs) {
      EXPECT_TRUE(manager_->add_pool(c));
      devices_.emplace_back(c.num_blocks, c.block_size);
      state_devices_.emplace_back(std::max(c.num_state_slots, 1U), 1);
    }
  }

  /// Runs `num` commands and then releases everything; returns the first broken rule, if any.
  std::optional<std::string> run(std::uint32_t num) try {
    for (std::uint32_t i = 0; i < num; ++i) {
      command();
      if (!problem_) check();
      if (problem_) return "command " + std::to_string(i) + ": " + *problem_;
    }
    wind_up();
    return problem_;
  } catch (const check_failure& failure) {
    return failure.what();
  }

 private:
  struct pass {
    std::uint64_t sequence;
    std::vector<token_id> tokens; ///< computed at slots length, length + 1, ...
    /// For a pool with states: where the states of the last known token and of each draft are left.
    std::vector<state_slot> states = {};
  };
  struct live_request {
    lease_key key;
    std::vector<block_id> blocks;
    std::vector<token_id> tokens;
    std::uint32_t num_prompt_tokens;
    std::uint32_t length;
    std::uint64_t copied_at; ///< its first cells are valid once this program has run
    std::string salt;
    std::vector<std::uint64_t> contents; ///< of final slots
    std::optional<pass> running;
    std::vector<state_slot> states = {};  ///< that it may write
    std::optional<state_slot> state = {}; ///< of its final slots
  };

  static block_hasher four_bit_hasher() {
    return [full = make_block_hasher()](const block_content& c) { return hash128{full(c).low & 15, 0}; };
  }

  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }
  shadow_device& device_of(const live_request& r) { return devices_[r.key.pool.value]; }
  std::uint32_t block_size(const live_request& r) const { return manager_->config(r.key.pool).block_size; }
  /// The account in the budget of its space. Pools register in order.
  std::size_t account_of(pool_id pool) const {
    std::size_t account = 0;
    for (std::uint32_t i = 0; i < pool.value; ++i)
      if (manager_->config(pool_id{i}).space == manager_->config(pool).space) ++account;
    return account;
  }
  std::uint64_t blocks_of(const live_request& r, std::uint64_t length) const {
    return (length + block_size(r) - 1) / block_size(r);
  }
  stream_point now(const live_request& r) {
    return {stream_id{r.key.pool.value}, devices_[r.key.pool.value].submitted()};
  }
  bool has_states(pool_id pool) const { return manager_->config(pool).num_state_slots != 0; }
  std::uint32_t num_free_state_slots(const live_request& r) const {
    return static_cast<std::uint32_t>(std::ranges::count_if(r.states, [&](auto s) { return s != r.state; }));
  }
  /// Programs of cells and of states are the same programs.
  std::uint64_t submit(const live_request& r, std::vector<device::kv_copy> copies,
                       std::vector<shadow_device::write> writes,
                       std::vector<shadow_device::write> states = {}) {
    state_devices_[r.key.pool.value].submit({}, std::move(states));
    return devices_[r.key.pool.value].submit(std::move(copies), std::move(writes));
  }
  void fail(std::string what) {
    if (!problem_) problem_ = std::move(what);
  }
  /// An answer to a command that may only fail because the pool is full. A pool that is alone in its budget
  /// is full only if free and cached blocks are fewer than requested.
  template <class T>
  bool granted(const expected<T>& answer, pool_id pool, std::uint64_t num_wanted) {
    if (answer) return true;
    const auto why = answer.error().code();
    if (why == errc::pool_full && manager_->num_pools() == 1 && manager_->config(pool).slab_blocks == 1 &&
        num_wanted <= manager_->available_blocks(pool))
      fail("a pool with room for " + std::to_string(num_wanted) + " blocks is called full");
    if (why == errc::state_slots_full &&
        !(has_states(pool) &&
          manager_->state_slots(pool)->num_free() + manager_->state_slots(pool)->num_idle() < 3))
      fail("a pool with three state slots to give is said to lack them");
    if (why != errc::pool_full && why != errc::state_slots_full && why != errc::resource_exhausted)
      fail(answer.error().message());
    return false;
  }
  void must(const expected<void>& answer) {
    if (!answer) fail(answer.error().message());
  }

  std::uint64_t content_after(const live_request& r, std::uint64_t before, std::uint32_t slot,
                              token_id token) const {
    const bool as_prompt = manager_->config(r.key.pool).separate_origins && slot < r.num_prompt_tokens;
    return next_content(before, token, as_prompt);
  }
  std::uint64_t seed_of(const live_request& r) const { return r.salt.empty() ? 1 : 2; }
  void extend_contents(live_request& r) {
    while (r.contents.size() < r.length) {
      const auto i = static_cast<std::uint32_t>(r.contents.size());
      r.contents.push_back(content_after(r, i == 0 ? seed_of(r) : r.contents.back(), i, r.tokens[i]));
    }
  }

  void command() {
    const auto pick = below(100);
    if (requests_.empty() || pick < 12) return acquire();
    auto& r = requests_[below(static_cast<std::uint32_t>(requests_.size()))];
    if (pick < 45) return r.running ? finish(r) : start(r);
    if (pick < 50) return rollback(r);
    if (pick < 56) return share(r);
    if (pick < 64) return release(&r - requests_.data());
    if (pick < 69) return preempt(&r - requests_.data());
    if (pick < 73) return late_commands(r);
    if (pick < 75) return crowd(r.key.pool);
    advance(r.key.pool.value, 1 + below(3));
  }

  void advance(std::uint32_t pool, std::uint32_t num) {
    for (std::uint32_t i = 0; i < num; ++i)
      devices_[pool].complete_one(), state_devices_[pool].complete_one();
    manager_->on_watermark(stream_id{pool}, devices_[pool].completed());
  }

  void acquire() {
    live_request r;
    r.key.pool = pool_id{below(manager_->num_pools())};
    r.salt = below(3) == 0 ? "other" : "";
    // Only two tokens, in long runs, so that many prefixes are equal.
    const auto num = 1 + below(below(2) == 0 ? 6 : 40);
    auto token = token_id{static_cast<std::int32_t>(below(2))};
    for (std::uint32_t i = 0; i < num; ++i) {
      if (below(16) == 0) token = token_id{1 - token.value};
      r.tokens.push_back(token);
    }
    r.num_prompt_tokens = num;
    r.key.request = request_id{++last_request_};
    open(std::move(r));
  }

  bool open(live_request r) {
    const auto want = below(2) == 0 ? 0 : below(48);
    acquire_options options{r.tokens, r.num_prompt_tokens, r.salt, want};
    if (has_states(r.key.pool))
      options.min_state_slots = 2, options.max_state_slots = 2 + below(3),
      options.num_snapshot_slots = below(4);
    const auto answer = manager_->acquire(r.key.pool, r.key.request, options);
    if (!granted(answer, r.key.pool, blocks_of(r, std::max<std::uint64_t>(want, r.tokens.size()))))
      return false;
    if (answer->lease.length >= r.tokens.size()) fail("the last token came from the cache");
    r.key = answer->lease.key;
    r.blocks = answer->lease.blocks;
    r.length = answer->lease.length;
    check_fresh(r.key.pool, std::span(r.blocks).subspan(r.length / block_size(r)));
    r.copied_at = answer->copies.empty() ? 0 : submit(r, answer->copies, {});
    r.states = answer->states.slots;
    r.state = answer->states.initial;
    if (has_states(r.key.pool) && r.state.has_value() != (r.length > 0)) fail("a prefix without its state");
    for (const auto slot : r.states)
      if (auto what = state_devices_[r.key.pool.value].lease_fresh(std::vector{block_id{slot.value}}))
        fail("state: " + *what);
    extend_contents(r);
    requests_.push_back(std::move(r));
    return true;
  }

  void check_fresh(pool_id pool, std::span<const block_id> blocks) {
    if (auto what = devices_[pool.value].lease_fresh(blocks)) fail(*what);
  }

  /// Reserves, then enqueues a pass over the committed tokens not computed yet, followed by drafts.
  void start(live_request& r) {
    const auto num_known = static_cast<std::uint32_t>(r.tokens.size()) - r.length;
    auto num_drafts = num_known <= 8 ? below(6) : 0;
    if (has_states(r.key.pool)) num_drafts = std::min(num_drafts, num_free_state_slots(r) - 1);
    const auto num_rows = std::min(num_known, 8U) + num_drafts;
    if (num_rows == 0) return;
    const auto answer = manager_->reserve(r.key, r.length + num_rows);
    if (!granted(answer, r.key.pool, blocks_of(r, r.length + num_rows) - r.blocks.size())) return;
    const auto num_before = r.blocks.size();
    if (!std::equal(r.blocks.begin(), r.blocks.end(), answer->blocks.begin()))
      fail("a lease changed its blocks");
    r.blocks = answer->blocks;
    check_fresh(r.key.pool, std::span(r.blocks).subspan(num_before));
    pass p;
    std::vector<shadow_device::write> writes;
    auto before = r.length == 0 ? seed_of(r) : r.contents[r.length - 1];
    for (std::uint32_t i = 0; i < num_rows; ++i) {
      const auto slot = r.length + i;
      p.tokens.push_back(slot < r.tokens.size() ? r.tokens[slot]
                                                : token_id{static_cast<std::int32_t>(below(2))});
      before = content_after(r, before, slot, p.tokens.back());
      writes.push_back({device_of(r).cell_of(r.blocks, slot), before});
    }
    std::vector<shadow_device::write> states;
    for (const auto slot : r.states) {
      if (slot == r.state || p.states.size() > num_drafts) continue;
      const auto row = std::max(std::min(num_known, 8U), 1U) - 1 + p.states.size();
      if (row >= writes.size()) break;
      states.push_back({slot.value, writes[row].content});
      p.states.push_back(slot);
    }
    p.sequence = submit(r, {}, std::move(writes), std::move(states));
    r.running = std::move(p);
  }

  /// Commits the result of a completed pass: known tokens, accepted drafts, and one more token.
  void finish(live_request& r) {
    if (device_of(r).completed() < r.running->sequence) return advance(r.key.pool.value, 1);
    const auto& p = *r.running;
    const auto num_rows = static_cast<std::uint32_t>(p.tokens.size());
    const auto num_known = std::min(static_cast<std::uint32_t>(r.tokens.size()) - r.length, num_rows);
    const auto num_accepted = num_rows > num_known ? below(num_rows - num_known + 1) : 0;
    std::vector<token_id> committed(p.tokens.begin() + num_known,
                                    p.tokens.begin() + num_known + num_accepted);
    if (r.length + num_known == r.tokens.size())
      committed.push_back(token_id{static_cast<std::int32_t>(below(2))});
    r.length += num_known + num_accepted;
    std::vector<state_snapshot> snapshots;
    if (has_states(r.key.pool)) {
      const auto index =
          num_known > 0 ? num_accepted : num_accepted - 1; // without known rows, all are drafts
      if (num_known + num_accepted > 0) r.state = p.states.at(index);
      if (r.state && r.length % block_size(r) == 0 && num_free_state_slots(r) > 1 && below(2) == 0 &&
          std::erase(r.states, *r.state) > 0)
        snapshots.push_back({r.length, *r.state});
    }
    r.running.reset();
    must(manager_->commit(r.key, committed, r.length, snapshots));
    r.tokens.insert(r.tokens.end(), committed.begin(), committed.end());
    extend_contents(r);
    if (below(2) == 0) rollback(r);
  }

  void rollback(live_request& r) {
    // A running pass keeps its slots: the work enqueued with it may still use those that are released.
    const auto keep =
        r.length + (r.running ? static_cast<std::uint32_t>(r.running->tokens.size()) : below(4));
    must(manager_->rollback(r.key, keep, now(r)));
    const auto num_kept = (keep + block_size(r) - 1) / block_size(r);
    if (num_kept < r.blocks.size()) r.blocks.resize(num_kept);
  }

  /// A request with the first tokens of a live request, like the choices of one prompt. So cached blocks are
  /// in two or more tables.
  void share(const live_request& other) {
    live_request r;
    r.key = {other.key.pool, request_id{++last_request_}, {}};
    r.salt = other.salt;
    // Mostly whole blocks that are final, so all are cached and the last one is copied.
    const auto num_full = other.length / block_size(other);
    const auto num = num_full > 0 && below(4) != 0
                         ? (1 + below(num_full)) * block_size(other)
                         : 1 + below(static_cast<std::uint32_t>(other.tokens.size()));
    r.tokens.assign(other.tokens.begin(), other.tokens.begin() + num);
    r.num_prompt_tokens = std::min(other.num_prompt_tokens, num);
    if (!open(std::move(r)) || below(2) == 0) return;
    // A commit without a pass does not show that copies are complete.
    auto& opened = requests_.back();
    opened.tokens.push_back(token_id{static_cast<std::int32_t>(below(2))});
    must(manager_->commit(opened.key, std::span(opened.tokens).last(1), opened.length));
  }

  /// A short request for slightly more than what is free, so that cached blocks must be evicted.
  void crowd(pool_id pool) {
    const auto& config = manager_->config(pool);
    const auto usage = manager_->usage(pool);
    const auto spare = manager_->budget(config.space).available_bytes(account_of(pool)) / config.block_bytes;
    const auto num_blocks = static_cast<std::uint32_t>(
        usage.num_free + std::min<std::uint64_t>(spare, usage.num_absent) + 1 + below(4));
    if (const auto key = take(pool, num_blocks)) must(manager_->release(*key, {}));
  }

  /// Opens a table that shares nothing and never computes; none if it is refused.
  std::optional<lease_key> take(pool_id pool, std::uint32_t num_blocks) {
    const std::vector tokens{token_id{0}};
    const auto answer = manager_->acquire(pool, request_id{++last_request_},
                                          {.tokens = tokens,
                                           .num_prompt_tokens = 1,
                                           .salt = {},
                                           .reserve_length = num_blocks * manager_->config(pool).block_size,
                                           .use_cache = false});
    if (!granted(answer, pool, num_blocks)) return std::nullopt;
    const auto& lease = answer->lease;
    if (lease.length > 0 || !answer->copies.empty()) fail("a request without the cache got cells from it");
    if (lease.blocks.size() != num_blocks) fail("a lease has the wrong number of blocks");
    check_fresh(pool, lease.blocks);
    return lease.key;
  }

  void release(std::ptrdiff_t i) {
    auto& r = requests_[static_cast<std::size_t>(i)];
    must(manager_->release(r.key, now(r)));
    released_.push_back(r.key);
    std::swap(r, requests_.back());
    requests_.pop_back();
  }

  void preempt(std::ptrdiff_t i) {
    auto r = requests_[static_cast<std::size_t>(i)];
    release(i);
    r.running.reset();
    r.contents.clear();
    open(std::move(r));
  }

  void late_commands(const live_request& r) {
    auto key = r.key;
    if (released_.empty())
      key.epoch.value += 1000;
    else
      key = released_[below(static_cast<std::uint32_t>(released_.size()))];
    const auto is_stale = [this](const auto& answer) {
      if (answer.has_value() || answer.error().code() != errc::stale) fail("a late command was taken");
    };
    is_stale(manager_->reserve(key, 3));
    is_stale(manager_->commit(key, {}, 3));
    is_stale(manager_->rollback(key, 3, {}));
    is_stale(manager_->release(key, {}));
  }

  void check() {
    if (auto ok = manager_->check_invariants(); !ok) return fail(ok.error().message());
    for (auto& r : requests_) {
      if (device_of(r).completed() < r.copied_at) continue;
      const auto size = block_size(r);
      if (r.state && r.length > 0 &&
          state_devices_[r.key.pool.value].content(block_id{r.state->value}, 0) != r.contents[r.length - 1])
        return fail("request " + to_string(r.key.request) + " has a foreign state");
      for (std::uint32_t i = 0; i < r.length; ++i)
        if (device_of(r).content(r.blocks[i / size], i % size) != r.contents[i])
          return fail("request " + to_string(r.key.request) + " slot " + std::to_string(i) +
                      " holds a foreign cell");
    }
  }

  void wind_up() {
    while (!requests_.empty() && !problem_) release(0);
    for (std::uint32_t i = 0; i < manager_->num_pools() && !problem_; ++i) {
      while (devices_[i].complete_one()) {
      }
      while (state_devices_[i].complete_one()) {
      }
      manager_->on_watermark(stream_id{i}, devices_[i].completed());
      const auto idle = manager_->usage(pool_id{i});
      if (has_states(pool_id{i}) && manager_->state_slots(pool_id{i})->num_held() != 0)
        fail("an idle pool holds states");
      if (idle.num_active + idle.num_deferred + idle.num_requests != 0) fail("an idle pool holds blocks");
      evict_all(pool_id{i});
    }
    for (std::uint32_t i = 0; i < manager_->num_pools() && !problem_; ++i) {
      const auto& budget = manager_->budget(manager_->config(pool_id{i}).space);
      const auto account = account_of(pool_id{i});
      if (budget.lent_bytes(account) != budget.min_bytes(account)) fail("an empty pool keeps memory");
    }
    check();
  }

  /// Takes blocks one by one until the cache of idle pools is empty, and returns them.
  void evict_all(pool_id pool) {
    std::vector<lease_key> taken;
    while (manager_->usage(pool).num_cached > 0 && !problem_) {
      const auto key = take(pool, 1);
      if (!key) return fail("an unused prefix cannot be evicted");
      taken.push_back(*key);
    }
    for (const auto& key : taken) must(manager_->release(key, {}));
  }

  std::mt19937_64 random_;
  std::optional<pool_manager> manager_;
  std::vector<shadow_device> devices_;
  std::vector<shadow_device> state_devices_; ///< slots are its blocks, of one cell
  std::vector<live_request> requests_;
  std::vector<lease_key> released_;
  std::uint64_t last_request_ = 0;
  std::optional<std::string> problem_;
};

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(pool_property_test, any_sequence_of_commands_keeps_every_cell_and_every_count) {
  const auto first = from_environment("PACELINE_SEED", 1);
  const auto num = from_environment("PACELINE_SEQUENCES", 20'000);
  for (auto seed = first; seed < first + num; ++seed) {
    random_run run(seed);
    const auto problem = run.run(64);
    ASSERT_FALSE(problem) << *problem << "\nrepeat with PACELINE_SEED=" << seed << " PACELINE_SEQUENCES=1";
  }
}

} // namespace
} // namespace paceline::kv
