#include "apps/commands/options.hpp"
#include "apps/exit_codes.hpp"

#include "config/drafters.hpp"
#include "engine/device_set.hpp"
#include "engine/model_files.hpp"
#include "runtime/model/heads/files/head_loader.hpp"
#include "runtime/model/heads/files/head_report.hpp"
#include "runtime/model/heads/lookahead_inputs.hpp"
#include "runtime/model/loader/gguf/gguf_vocabulary.hpp"
#include "runtime/model/loader/model_source.hpp"
#include "runtime/model/loader/report/model_report.hpp"
#include "runtime/model/transformer_loader.hpp"
#include "runtime/tokenizer/chat_template/render_jsonl.hpp"

#include <boost/json.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <utility>

namespace paceline::apps {

namespace {

/// Encoding needs no weights: a GGUF file with only a vocabulary, a tokenizer.json, or a directory with one.
expected<tokenizer::tokenizer> open_vocabulary(const std::filesystem::path& path) {
  if (path.extension() == ".gguf") {
    auto file = model::gguf_file::open(path);
    if (!file) return std::move(file).error();
    auto data = model::read_gguf_vocabulary(file->metadata());
    if (!data) return std::move(data).error();
    auto made = tokenizer::tokenizer::from_vocabulary(*std::move(data));
    if (!made) return std::move(made).error().within(path.string());
    return made;
  }
  if (path.extension() == ".json") {
    model::hf_tokenizer_settings files;
    if (path.filename() == "tokenizer.json") { // otherwise files next to it may belong to another model
      auto read = model::read_hf_tokenizer_settings(path.parent_path());
      if (!read) return std::move(read).error();
      files = *std::move(read);
    }
    files.tokenizer_json = path;
    return make_tokenizer(files);
  }
  std::error_code ignored;
  if (std::filesystem::exists(path / "tokenizer.json", ignored))
    return open_vocabulary(path / "tokenizer.json");
  auto source = model::open_model(path);
  if (!source) return std::move(source).error();
  return make_tokenizer(*source);
}

/// The report of a model, or of a draft head if the files contain one.
expected<model::model_report> inspect_alone(const inspect_options& options) {
  auto report =
      model::inspect_model(options.path, {options.context_length, options.sequences, options.kv_dtype});
  if (report && report->problem.empty()) return report;
  auto head = model::inspect_head(options.path);
  return head ? std::move(head) : std::move(report);
}

/// The report of a draft head, loaded for a target on the CPU.
expected<model::model_report> inspect_for_target(const inspect_options& options) {
  auto report = model::inspect_head(options.path);
  if (!report) return report;
  auto source = model::open_model(options.model);
  if (!source) return std::move(source).error();
  cpu::cpu_device_options cpu;
  cpu.partitions.resize(1);
  auto devices = device_set::make(cpu);
  if (!devices) return std::move(devices).error();
  const auto device = devices->get("cpu");
  if (!device) return device.error();
  model::transformer_load_options load;
  load.kv_type = options.kv_dtype;
  auto target = model::load_transformer(source->config, source->weights, (*device)->weights(),
                                        (*device)->buffers(), load);
  if (!target) return std::move(target).error();
  if (config::drafts_with_inputs(report->head.kind)) {
    model::add_fit(
        *report, options.model,
        model::load_lookahead_inputs(report->head.kind, options.path, (*target)->info().hidden_size));
    return report;
  }
  model::add_fit(*report, options.model,
                 model::load_draft_head(report->head.kind, options.path, *std::move(target),
                                        {.kv_type = options.kv_dtype, .overrides = {}}, (*device)->weights(),
                                        (*device)->buffers()));
  return report;
}

} // namespace

int inspect(const inspect_options& options) {
  const auto report = options.model.empty() ? inspect_alone(options) : inspect_for_target(options);
  if (!report) return fail(report.error());
  std::cout << (options.json ? model::to_json(*report) : model::to_text(*report)) << '\n';
  return exit_success;
}

int tokenize(const tokenize_options& options) {
  const auto vocabulary = open_vocabulary(options.model);
  if (!vocabulary) return fail(vocabulary.error());
  const tokenizer::encode_options encode{.add_special = !options.no_bos, .parse_special = !options.plain};
  std::size_t number = 0;
  for (std::string line; std::getline(std::cin, line);) {
    ++number;
    std::string text = line;
    if (options.jsonl) {
      boost::system::error_code failed;
      const auto value = boost::json::parse(line, failed);
      if (failed || !value.is_string()) {
        std::fprintf(stderr, "paceline: line %zu is not a JSON string\n", number);
        return exit_failure;
      }
      text.assign(value.get_string().begin(), value.get_string().end());
    }
    const auto tokens = vocabulary->encode(text, encode);
    if (!tokens) return fail(tokens.error());
    std::cout << '[';
    for (std::size_t i = 0; i < tokens->size(); ++i) std::cout << (i ? ", " : "") << (*tokens)[i].value;
    std::cout << "]\n";
  }
  return exit_success;
}

int render(const render_options& options) {
  std::ifstream file(options.template_file, std::ios::binary);
  const std::string source{std::istreambuf_iterator<char>(file), {}};
  if (!file) return fail({errc::not_found, options.template_file + ": cannot be read"});
  auto how =
      options.plain_jinja2 ? tokenizer::template_options::plain_jinja2() : tokenizer::template_options{};
  how.name = options.template_file;
  const auto parsed = tokenizer::chat_template::parse(source, how);
  if (!parsed) return fail(parsed.error());
  return tokenizer::render_jsonl(std::cin, std::cout, *parsed) == 0 ? exit_success : exit_failure;
}

} // namespace paceline::apps
