// The table of options; those of drafters are in drafter_option_table.cpp.
#include "config/drafter_option_table.hpp"
#include "config/group_builder.hpp"

#include "runtime/base/check.hpp"
#include "runtime/base/output_parsers.hpp"

#include <algorithm>

namespace paceline::config {

namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
constexpr std::uint64_t kib = 1024;
constexpr std::uint64_t mib = 1024 * kib;
constexpr std::uint64_t tib = 1024 * 1024 * mib;

void declare_server(group_builder<daemon_config>& g) {
  using c = daemon_config;
  g.add(
      "server.host", texts, [](c & o) -> auto& { return o.server.host; },
      "IP address to listen on, or `localhost`. Beyond loopback it needs `server.api_keys_file` or "
      "`server.allow_unauthenticated`.");
  g.add(
      "server.port", integers(0, 65535), [](c & o) -> auto& { return o.server.port; },
      "TCP port; 0 picks a free one and prints it.");
  g.add(
      "server.api_keys_file", texts, [](c & o) -> auto& { return o.server.api_keys_file; },
      "File with one API key a line, optionally followed by ` best_priority=N`: requests with that key may ask "
      "for a `priority` down to N instead of 0. Empty: requests need no key.",
      on_reload);
  g.add(
      "server.allow_unauthenticated", booleans, [](c & o) -> auto& { return o.server.allow_unauthenticated; },
      "Listen beyond loopback without keys, for networks that are trusted as a whole.");
  g.add(
      "server.allowed_origins", text_lists, [](c & o) -> auto& { return o.server.allowed_origins; },
      "Web origins whose pages may connect, in addition to pages served from loopback.", on_reload);
  g.add(
      "server.allowed_hosts", text_lists, [](c & o) -> auto& { return o.server.allowed_hosts; },
      "Host names to which this server answers, in addition to loopback names, which are always accepted; "
      "empty = any, when it listens beyond loopback and requires keys.");
  g.add(
      "server.max_connections", integers(1, 65536), [](c & o) -> auto& { return o.server.max_connections; },
      "Open connections. A further connection replaces the one that has been silent for longest among those "
      "that never sent a whole request; if there is none, it gets 503.");
  g.add(
      "server.max_lanes", integers(1, 1024), [](c & o) -> auto& { return o.server.max_lanes; },
      "Responses under way at a time on one WebSocket.");
}

void declare_tls(group_builder<daemon_config>& g) {
  using c = daemon_config;
  g.add(
      "server.tls.certificate", texts, [](c & o) -> auto& { return o.server.tls.certificate; },
      "PEM file with the server's certificate and then those of its chain. With it the port speaks TLS 1.2 and "
      "1.3 only (`https`, `wss`); empty = plain HTTP. SIGHUP reads the files of this section again, but does not "
      "switch TLS on or off.",
      on_reload);
  g.add(
      "server.tls.key", texts, [](c & o) -> auto& { return o.server.tls.key; },
      "PEM file with the private key of `server.tls.certificate`, without a passphrase.", on_reload);
  g.add(
      "server.tls.client_ca", texts, [](c & o) -> auto& { return o.server.tls.client_ca; },
      "PEM file with certificate authorities. With it every client must have a certificate of one of them, for "
      "health checks and `/metrics`, too. Empty = clients need none.",
      on_reload);
}

void declare_server_limits(group_builder<daemon_config>& g) {
  using c = daemon_config;
  g.add(
      "server.max_header", sizes(kib, mib), [](c & o) -> auto& { return o.server.max_header_bytes; },
      "Largest HTTP header.");
  g.add(
      "server.max_body", sizes(kib, 1024 * mib), [](c & o) -> auto& { return o.server.max_body_bytes; },
      "Largest HTTP body or WebSocket message.");
  g.add(
      "server.body_memory", sizes(kib, tib), [](c & o) -> auto& { return o.server.body_memory_bytes; },
      "Memory for request bodies and WebSocket messages above 64 KiB, of all connections together, from their "
      "arrival until they are parsed; at least `max_body`. When it is used up, the API key that holds most "
      "loses the incomplete body that arrives most slowly, which gets 503. To make room for another key, it "
      "may also lose a complete body that waits to be parsed.");
  g.add(
      "server.kept_memory", sizes(mib, tib), [](c & o) -> auto& { return o.server.kept_memory_bytes; },
      "Memory for stored responses, for conversations that `previous_response_id` may continue and for events "
      "of resumable responses, of all clients together. When it is used up, the least recently used entry of "
      "the API key that holds most is dropped as if it had expired.");
  g.add(
      "server.response_ttl", durations(milliseconds(100), hours(720)),
      [](c & o) -> auto& { return o.server.response_ttl; },
      "How long a finished response is stored for `previous_response_id` and `GET /v1/responses/{id}`, unless "
      "the request has `store: false`.");
  g.add(
      "server.output_memory", sizes(mib, tib), [](c & o) -> auto& { return o.server.output_memory_bytes; },
      "Memory for output that clients have not read yet, and for what the rest of that output is generated "
      "from, of all connections together. When it is used up, a connection is closed: the one that has "
      "recently read least, among those of the API key that holds most. The longest reply needs about 50MiB: "
      "with less memory, clients that ask for such a reply are closed.");
  g.add(
      "server.send_buffer", sizes(4 * kib, 64 * mib),
      [](c & o) -> auto& { return o.server.send_buffer_bytes; },
      "Unread output of a client above which its requests pause.");
  g.add(
      "server.header_timeout", durations(milliseconds(100), minutes(10)),
      [](c & o) -> auto& { return o.server.header_timeout; }, "Time for a whole HTTP header to arrive.");
  g.add(
      "server.body_timeout", durations(milliseconds(100), minutes(60)),
      [](c & o) -> auto& { return o.server.body_timeout; }, "Time for a whole HTTP body to arrive.");
  g.add(
      "server.idle_timeout", durations(seconds(1), hours(24)),
      [](c & o) -> auto& { return o.server.idle_timeout; },
      "Idle time after which a connection without a request is closed; WebSockets are pinged before.");
  g.add(
      "server.send_timeout", durations(milliseconds(100), minutes(60)),
      [](c & o) -> auto& { return o.server.send_timeout; },
      "How far a client may lag behind reading 1 KiB a second of its waiting output, before it is closed and "
      "its requests are cancelled. For a client that reads nothing, this is the time until then.");
  g.add(
      "server.request_timeout", durations(milliseconds(100), hours(24)),
      [](c & o) -> auto& { return o.server.request_timeout; },
      "Time from a request's admission to its last token, unless the client asks for a shorter one.",
      on_reload);
  g.add(
      "server.edge_threads", integers(1, 256), [](c & o) -> auto& { return o.server.edge_threads; },
      "Threads for tokenization, templates and other work on whole requests.");
}

void declare_engine(group_builder<daemon_config>& g) {
  using c = daemon_config;
  g.add(
      "engine.threads", integers(0, 1024), [](c & o) -> auto& { return o.engine.threads; },
      "CPU threads that compute, in all partitions together; 0 = one for each core.");
  g.add(
      "engine.partitions", integers(1, 64), [](c & o) -> auto& { return o.engine.partitions; },
      "Independent groups of threads. With two, a drafter can compute at the same time as the target, on "
      "machines with many cores.");
  g.add(
      "engine.actor_threads", integers(1, 64), [](c & o) -> auto& { return o.engine.actor_threads; },
      "Threads that run actors; they do not compute.");
  g.add(
      "engine.memory_budget", sizes(0, 1024 * tib),
      [](c & o) -> auto& { return o.engine.memory_budget_bytes; },
      "Memory for the KV cells of all models and drafters together. It applies to the host's memory and to "
      "that of each GPU. 0 = as much as `max_running` requests need, up to half of the machine's memory and "
      "nine tenths of a GPU's free memory.");
  g.add(
      "engine.prefix_cache", booleans, [](c & o) -> auto& { return o.engine.prefix_cache; },
      "Share the KV cells of common prompt prefixes, within one `cache_salt`.");
  g.add(
      "engine.max_restarts", integers(0, 1000), [](c & o) -> auto& { return o.engine.max_restarts; },
      "Restarts of one actor within `engine.restart_window`. After more it stays down, and the models that "
      "need it end their requests and refuse new ones.");
  g.add(
      "engine.restart_window", durations(seconds(1), hours(1)),
      [](c & o) -> auto& { return o.engine.restart_window; }, "In whole seconds; see `engine.max_restarts`.");
  g.add(
      "scheduler.overlap", {"off", "groups", "ahead", "outcomes", "auto"},
      [](c & o) -> auto& { return o.engine.overlap; },
      "What a drafter with its own stream does while the target verifies. `off`: it waits. `groups`: it "
      "drafts for the other of two groups of requests (requests with drafter `auto` are not divided into "
      "groups). `ahead`: it continues as if every draft token were accepted. `outcomes`: it continues from "
      "several possible verdicts. `auto`: the fastest of these by measured times, or `off` on one set of "
      "cores. The option changes when drafts are made, not the guarantee of the verification rule.");
  g.add(
      "scheduler.outcome_guesses", integers(1, 4), [](c & o) -> auto& { return o.engine.outcome_guesses; },
      "Number of tokens guessed at each position of a draft. Costs KV blocks of the drafter. Only for "
      "`overlap: outcomes`.");
  g.add(
      "scheduler.max_gap", durations(milliseconds(1), minutes(1)),
      [](c & o) -> auto& { return o.engine.max_gap; },
      "Longest pause of a running stream caused by other requests' prompts.");
  g.add(
      "scheduler.pass_timing", durations(milliseconds(0), minutes(1)),
      [](c & o) -> auto& { return o.engine.pass_timing; },
      "How long the passes of each model that has drafters are timed when it is loaded, over 1 to 64 rows. "
      "Drafter `auto` and rule `optimal` begin with these times. 0 = they learn the times from requests.");
  g.add(
      "scheduler.round_timeout", durations(milliseconds(100), hours(24)),
      [](c & o) -> auto& { return o.engine.round_timeout; },
      "Longest duration of a round. After that the device counts as lost: the model's requests end with "
      "`device_lost`, and the daemon reports itself unhealthy until the round returns.");
}

void declare_operation(group_builder<daemon_config>& g) {
  using c = daemon_config;
  g.add(
      "metrics.enabled", booleans, [](c & o) -> auto& { return o.metrics.enabled; }, "Serve `/metrics`.");
  g.add(
      "metrics.vllm_names", booleans, [](c & o) -> auto& { return o.metrics.vllm_names; },
      "Also report the metrics under vLLM's names, for tools that read those.", on_reload);
  g.add(
      "metrics.require_key", booleans, [](c & o) -> auto& { return o.metrics.require_key; },
      "Require an API key for `/metrics`, too.", on_reload);
  g.add(
      "logging.level", {"debug", "info", "warning", "error", "off"},
      [](c & o) -> auto& { return o.logging.level; }, "Least severe level that is logged.", on_reload);
  g.add(
      "logging.format", {"text", "json"}, [](c & o) -> auto& { return o.logging.format; },
      "Readable lines, or one JSON object a line.");
  g.add(
      "logging.file", texts, [](c & o) -> auto& { return o.logging.file; },
      "File of the log; empty = standard error. SIGHUP opens it again, for log rotation.");
  g.add(
      "shutdown.drain_timeout", durations(milliseconds(0), hours(1)),
      [](c & o) -> auto& { return o.shutdown.drain_timeout; },
      "On SIGTERM, time for running requests to finish before they are cancelled.", on_reload);
}

void declare_model(group_builder<model_options>& g) {
  using m = model_options;
  std::vector<std::string_view> call_parsers{"auto"};
  call_parsers.insert(call_parsers.end(), call_syntax_names.begin(), call_syntax_names.end());
  g.add(
      "name", texts, [](m & o) -> auto& { return o.name; },
      "Name in requests; unique. The first model is also called `default`.");
  g.add(
      "aliases", text_lists, [](m & o) -> auto& { return o.aliases; }, "Further names of the model.");
  g.add(
      "kind", {"file", "hash"}, [](m & o) -> auto& { return o.kind; },
      "`hash` is a model without weights, for tests, demonstrations and load tests.");
  g.add(
      "path", texts, [](m & o) -> auto& { return o.path; },
      "GGUF file or Hugging Face directory. Only for kind `file`.");
  g.add(
      "device", texts, [](m & o) -> auto& { return o.device; },
      "Device that computes the model: `cpu`, or a GPU as `cuda:0`, `cuda:1`, ...; `auto` is the CPU until "
      "the CUDA device has been measured on hardware (`docs/gpu.md`). `cuda:0/reference` is slow and has the "
      "bits of the CPU. `cuda:0/fast` is faster for long prompts, but a text may depend on other requests in "
      "the same pass.");
  g.add(
      "context_length", integers(0, max_context_length), [](m & o) -> auto& { return o.context_length; },
      "Largest number of tokens in a prompt and its output; 0 = the model's own, at most 8192.");
  g.add(
      "kv.block_size", integers(1, 256), [](m & o) -> auto& { return o.block_size; },
      "Tokens in one block of KV cells, the unit in which memory is allocated, shared and returned.");
  g.add(
      "kv.dtype", {"f16", "f32", "bf16", "q8"}, [](m & o) -> auto& { return o.kv_dtype; },
      "Element type of KV cells; `q8` is int8 with one scale for each token and head.");
  g.add(
      "chat_template", texts, [](m & o) -> auto& { return o.chat_template; },
      "File of a Jinja template that replaces the model's own, or `chatml` for the built-in ChatML template.");
  g.add(
      "tool_call_parser", call_parsers, [](m & o) -> auto& { return o.tool_call_parser; },
      "How the model writes calls of tools. `auto` finds it in the chat template. `none` leaves calls in the "
      "text and refuses tools. `harmony`, the format of gpt-oss, applies to whole outputs.");
  g.add(
      "reasoning_parser", {"auto", "none", "think", "mistral"},
      [](m & o) -> auto& { return o.reasoning_parser; },
      "How the model marks its thoughts, which become `reasoning_content`. `think`: by `<think>` and "
      "`</think>`; `mistral`: by `[THINK]` and `[/THINK]`. `auto` finds it in the chat template. `none` leaves "
      "thoughts in the text. In `harmony`, a channel marks them.");
  g.add(
      "max_running", integers(1, 4096), [](m & o) -> auto& { return o.max_running; },
      "Requests decoded at the same time.");
  g.add(
      "max_waiting", integers(0, 1'000'000), [](m & o) -> auto& { return o.max_waiting; },
      "Requests queued in addition; further ones are refused.");
  g.add(
      "default_drafter", texts, [](m & o) -> auto& { return o.default_drafter; },
      "Drafter of requests that name none: one of `drafters`, `none`, or `auto`. In every round `auto` "
      "chooses the drafter, and the part of its draft, that is expected to be fastest by measurement, "
      "possibly `none`. A model that lists no drafters has `ngram` and `suffix`. `prediction` and `forced` "
      "are always available.");
  g.add(
      "auto_draft_length", integers(1, 64), [](m & o) -> auto& { return o.auto_draft_length; },
      "Largest draft length that drafter `auto` chooses.");
  g.add(
      "default_rule", {"coupled", "rejection", "block"}, [](m & o) -> auto& { return o.default_rule; },
      "Verification rule of requests that name none: `coupled` gives the tokens of plain decoding, `rejection` "
      "and `block` give its distribution. Rules that keep neither must be named by the request.");
}

/// The model without weights.
void declare_hash_model(group_builder<model_options>& g) {
  using m = model_options;
  g.add(
      "hash.vocab_size", integers(258, 1U << 24), [](m & o) -> auto& { return o.hash.vocab_size; },
      "Size of the vocabulary: 256 bytes, two special tokens, and further tokens. Only for kind `hash`.");
  g.add(
      "hash.memory", integers(0, 1U << 24), [](m & o) -> auto& { return o.hash.memory; },
      "Number of last tokens on which the next one depends; 0 = all. Only for kind `hash`.");
  g.add(
      "hash.sharpness", numbers(0, 1000), [](m & o) -> auto& { return o.hash.sharpness; },
      "Spread of the logits; higher = more certain. Only for kind `hash`.");
  g.add(
      "hash.pass_work", integers(0, 1'000'000'000), [](m & o) -> auto& { return o.hash.pass_work; },
      "Number of hash steps computed in each pass, so that the pass takes time. Only for kind `hash`.");
}

/// Declares that `parent`'s objects have a list of `element`'s, the member that `list` returns.
template <class Parent, class Access>
void nest(option_group& parent, const option_group& element, Access list) {
  parent.elements = &element;
  parent.list_of = [list](void* object) {
    std::vector<void*> all;
    for (auto& e : list(*static_cast<Parent*>(object))) all.push_back(&e);
    return all;
  };
  parent.append = [list](void* object) -> void* {
    return &list(*static_cast<Parent*>(object)).emplace_back();
  };
}

/// The three groups, which refer to one another and therefore must not move.
struct option_groups {
  option_group drafters{"drafters", 32, "Drafters of a model", {}, nullptr, {}, {}, {}};
  option_group models{"models", 128, "Models", {}, nullptr, {}, {}, {}};
  option_group root{"", 1, "The daemon", {}, nullptr, {}, {}, {}};

  option_groups() {
    group_builder<daemon_config> daemon(root);
    declare_server(daemon);
    declare_tls(daemon);
    declare_server_limits(daemon);
    declare_engine(daemon);
    declare_operation(daemon);
    group_builder<model_options> model(models);
    declare_model(model);
    declare_hash_model(model);
    group_builder<drafter_options> drafter(drafters);
    declare_drafter(drafter);
    nest<daemon_config>(
        root, models, [](daemon_config & c) -> auto& { return c.engine.models; });
    nest<model_options>(
        models, drafters, [](model_options & m) -> auto& { return m.drafters; });
  }
  option_groups(const option_groups&) = delete;
  option_groups& operator=(const option_groups&) = delete;
};

} // namespace

const option* option_group::find(std::string_view path) const {
  const auto found = std::ranges::find(options, path, &option::path);
  return found == options.end() ? nullptr : &*found;
}

bool option_group::is_section(std::string_view path) const {
  return std::ranges::any_of(options, [&](const option& o) {
    return o.path.size() > path.size() && o.path.starts_with(path) && o.path[path.size()] == '.';
  });
}

std::vector<std::string> option_group::names_in(std::string_view section) const {
  std::vector<std::string> names;
  for (const auto& o : options) {
    auto rest = o.path;
    if (!section.empty()) {
      if (!rest.starts_with(section) || rest.size() <= section.size() || rest[section.size()] != '.')
        continue;
      rest.remove_prefix(section.size() + 1);
    }
    const auto name = std::string(rest.substr(0, rest.find('.')));
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  if (section.empty() && elements != nullptr) names.emplace_back(elements->list);
  return names;
}

const option_group& root_options() {
  static const option_groups groups;
  return groups.root;
}

} // namespace paceline::config
