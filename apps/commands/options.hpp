#pragma once

#include "runtime/base/kv_type.hpp"
#include "runtime/base/request.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace paceline::apps {

/// The model options of commands that run a model themselves (run, chat, bench).
struct model_choice {
  std::string model;                ///< GGUF file or Hugging Face directory; "hash": no weights, for tests
  std::uint32_t threads = 0;        ///< 0: all cores
  std::uint32_t context_length = 0; ///< 0: the model's own, at most 8192
  std::string chat_template;        ///< file of the template, or "chatml"; empty: the model's own template
  kv_type kv_dtype = kv_type::f16;
  std::string device = "auto"; ///< auto, cpu, or cuda:N, also with /fast or /reference
  /// auto, none, or a kind of drafter; nullopt: the drafter of `draft_model` or `draft_head`, otherwise auto
  std::optional<std::string> drafter = {};
  std::vector<std::string> further_drafters = {}; ///< more drafters, which requests may name (bench)
  std::string draft_model;                        ///< path of a drafter's model; adds the drafter `model`
  std::string draft_head; ///< directory or GGUF file of a trained head; adds a drafter of the head's kind
  std::string draft_device = "auto"; ///< for the drafter's model: auto (the target's), cpu or cuda:N
  std::optional<std::uint32_t> draft_length = {}; ///< nullopt: the drafter decides
  std::uint32_t partitions = 1;  ///< groups of cores; with two, drafting models run on the second
  std::uint32_t max_running = 1; ///< requests at the same time

  std::uint32_t num_threads() const noexcept {
    return threads != 0 ? threads : std::max(std::thread::hardware_concurrency(), 1U);
  }
};

struct run_options {
  model_choice choice;
  std::string prompt;
  bool chat = false; ///< the prompt is a user's message: apply the chat template, which must be there
  bool raw = false;  ///< the prompt is text to continue, even if there is a chat template
  std::optional<std::string> system; ///< system prompt before the message
  std::optional<std::string> alias;  ///< name of the model in the report
  std::uint32_t max_tokens = 128;
  float temperature = 0;
  std::int32_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
  std::optional<std::uint64_t> seed = 0; ///< nullopt: a random one
  verification_rule rule = verification_rule::coupled;
  std::optional<float> lenience; ///< of rule lenient
  std::optional<float> epsilon;  ///< of rule typical
  std::optional<float> delta;    ///< of rule typical
  std::uint32_t beam_width = 0;  ///< 0: no beam search
  std::uint32_t num_best = 1;    ///< number of hypotheses of the beam search to show
  float length_penalty = 1;
  std::vector<std::string> stop;
  bool ignore_eos = false;
  bool json = false;
  bool trace = false; ///< show every round
};

struct chat_options : run_options {
  bool keeps_history = true; ///< keep the input history in a file of the user
};

struct serve_options {
  std::optional<std::string> config;
  std::optional<std::string> model;
  std::optional<std::string> alias; ///< names of the first model, separated by commas
  std::optional<std::string> context_length;
  std::optional<std::string> draft_model;
  std::optional<std::string> draft_head;
  std::optional<std::string> drafter;
  std::vector<std::string> api_keys; ///< each element may have several keys, separated by commas
  std::optional<std::string> host;
  std::optional<std::uint16_t> port;
  std::optional<std::string> threads;
  std::optional<std::string> device;
  std::optional<std::string> kv_dtype;
  std::optional<std::string> chat_template;
  std::optional<std::string> log_level;
  std::vector<std::string> set; ///< "server.port=8080"
  bool print_config = false;
};

struct top_options {
  std::string url = "http://127.0.0.1:8080";
  std::string api_key;
  std::string ca_file;
  double interval = 1; ///< seconds
  bool once = false;
  bool json = false;
};

struct tokenize_options {
  std::string model;
  bool no_bos = false;
  bool plain = false;
  bool jsonl = false;
};

struct render_options {
  std::string template_file;
  bool jsonl = false;
  bool plain_jinja2 = false;
};

struct inspect_options {
  std::string path;
  std::string model; ///< the target of a head; empty: none is named
  std::uint32_t context_length = 0;
  std::uint32_t sequences = 1;
  kv_type kv_dtype = kv_type::f16;
  bool json = false;
};

// The commands. Each prints its errors to standard error and returns the exit code of the process.
int serve(const serve_options& options);
int check_config(const std::string& path);
int run(const run_options& options);
int chat(const chat_options& options);
int top(const top_options& options);
int inspect(const inspect_options& options);
int tokenize(const tokenize_options& options);
int render(const render_options& options);

} // namespace paceline::apps
