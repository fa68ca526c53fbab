#pragma once

#include "apps/bench/door.hpp"
#include "apps/commands/options.hpp"
#include "runtime/device/tensor_type.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace paceline::apps::bench {

/// Options that all benches share.
struct common_options {
  model_choice choice;
  std::uint32_t repeats = 5; ///< timed runs, after one warm-up run
  std::uint64_t seed = 1;    ///< for generated prompts and for sampling
  bool json = false;
  std::string command_line; ///< the command that repeats the bench
};

struct decode_options : common_options {
  std::uint32_t prompt_tokens = 8;
  std::uint32_t tokens = 128;
  std::uint32_t batch = 1; ///< requests at the same time
  bool roof = false;       ///< also measure, between the runs, how fast the device reads its memory
};

struct prefill_options : common_options {
  std::uint32_t prompt_tokens = 512;
};

struct cost_options : common_options {
  std::vector<std::uint32_t> rows{1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16};
  std::uint32_t context = 256; ///< positions before the rows
  /// Also time the model as a drafter: a greedy draft of this many tokens; 0: not timed.
  std::uint32_t draft = 0;
  /// Also time each op (on a CPU).
  bool by_op = false;
  std::vector<std::string> draft_heads;             ///< directories or GGUF files, timed as well
  std::optional<device::tensor_type> draft_weights; ///< format of the heads' matrices; nullopt: as stored
  /// Tokens per round for the speed-up of the heads; 0: the value published for each family.
  double acceptance_length = 0;
};

/// The interfaces through which a workload is run, how often it is run, and whether rounds are counted.
struct door_options {
  std::vector<door_kind> through{door_kind::http}; ///< each arm (arms.hpp) is run through each of them
  bool unstreamed = false; ///< also over HTTP with the reply in one piece, as the baseline
  std::uint32_t pairs = 0; ///< see run_settings::pairs
  bool trace = false;      ///< count rounds as well as events

  /// The interfaces in `through`, after the unstreamed one if it is requested.
  std::vector<door_kind> kinds() const {
    std::vector<door_kind> out = through;
    if (unstreamed) out.insert(out.begin(), door_kind::unstreamed);
    return out;
  }
};

struct serve_bench_options : common_options {
  door_options doors;
  std::string workload; ///< JSON lines, each with "messages" or "prompt"
  /// Compared with each other; the first one is the baseline. Each set of `concurrency` prompts is run with
  /// all drafters before the next set. "ngram/8" is ngram with draft length 8.
  std::vector<std::string> drafters{"ngram"};
  std::uint32_t requests = 0; ///< prompts taken from the file; 0: all
  std::uint32_t concurrency = 1;
  std::uint32_t max_tokens = 128;
  float temperature = 0;
};

struct spec_options : common_options {
  door_options doors;
  std::vector<std::string> workloads;                 ///< files, as in serve_bench_options
  std::vector<std::string> drafters{"ngram", "auto"}; ///< in addition to plain decoding
  std::vector<std::uint32_t> lengths{2, 5, 8};        ///< draft lengths of every drafter except "auto"
  /// Each drafter is run in each of these modes; empty: the engine chooses.
  std::vector<overlap_request> overlap;
  std::vector<std::uint32_t> concurrency{1};
  std::uint32_t requests = 0; ///< prompts taken from each file; 0: all
  std::uint32_t max_tokens = 128;
  float temperature = 0;
};

/// Plain decoding: tokens per second.
int decode(const decode_options& options);
/// Prompt processing: tokens per second.
int prefill(const prefill_options& options);
/// V(T): the cost of a pass of T rows relative to a pass of one row, and to the limits of the
/// device (device_roof.hpp).
int cost(const cost_options& options);
/// A workload file through the interfaces in `doors`: latencies, tokens per second, acceptance, comparison of
/// drafters.
int serve(const serve_bench_options& options);
/// Every drafter with every length on every workload: acceptance, measured and predicted speed-up, and where
/// the time goes.
int spec(const spec_options& options);

} // namespace paceline::apps::bench
