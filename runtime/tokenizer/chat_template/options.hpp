#pragma once

#include <cstddef>
#include <ctime>
#include <functional>
#include <string>

namespace paceline::tokenizer {

/// The output of the filter `tojson`. `transformers`: like json.dumps with the arguments that Hugging Face
/// transformers passes. `jinja2`: like jinja2's own filter, which sorts keys and escapes HTML.
enum class tojson_style { transformers, jinja2 };

/// How a template is read and rendered. The defaults are those of transformers' `apply_chat_template`:
/// ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True) with loop controls and generation
/// blocks. `plain_jinja2()` gives the defaults of `jinja2.Environment()`.
struct template_options {
  std::string name = "chat template"; ///< name of the template in errors: a file or model
  bool trim_blocks = true;            ///< drop the first newline after a block tag
  bool lstrip_blocks = true;          ///< drop the blanks before a block tag at the start of a line
  bool keep_trailing_newline = false;
  bool loop_controls = true;     ///< {% break %} and {% continue %}
  bool generation_blocks = true; ///< {% generation %}, which marks the assistant's text
  bool chat_functions = true;    ///< raise_exception and strftime_now
  bool allow_mutation = false; ///< list.append, dict.update and the like; the immutable sandbox refuses them
  bool limit_ranges = true;    ///< the sandbox refuses range() above 100000 elements
  tojson_style tojson = tojson_style::transformers;

  static template_options plain_jinja2() {
    template_options options;
    options.trim_blocks = options.lstrip_blocks = false;
    options.loop_controls = options.generation_blocks = options.chat_functions = false;
    options.allow_mutation = true;
    options.limit_ranges = false;
    options.tojson = tojson_style::jinja2;
    return options;
  }
};

/// Local time for strftime_now().
struct wall_time {
  std::tm fields{};
  int microseconds = 0;
};

/// The machine's local time.
wall_time local_wall_time();

/// Limits of one rendering. Templates come with requests and model files and are untrusted input. Reaching a
/// limit gives `errc::resource_exhausted` with the template's line.
struct render_limits {
  std::size_t max_steps = 1'000'000; ///< evaluated nodes, loop iterations and accessed elements
  int max_call_depth = 64;           ///< nested macros, callers and recursive loops
  std::size_t max_output_bytes = 1U << 20;
  /// Bytes that the rendering allocates in total, including memory that it no longer uses.
  std::size_t max_memory_bytes = 64U << 20;
  std::function<wall_time()> clock = local_wall_time;
};

} // namespace paceline::tokenizer
