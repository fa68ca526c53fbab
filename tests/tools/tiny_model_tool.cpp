// The C++ part of the tests of the Python tools.
//
//   tiny_model_tool write PATH
//     writes a tiny model whose rows are whole blocks of every type, or only of some
//
//   tiny_model_tool open PATH
//     opens a model completely and prints its report as JSON; exit code 1 if it cannot run

#include "runtime/model/loader/model_source.hpp"
#include "runtime/model/loader/report/model_report.hpp"
#include "tests/support/tiny_model.hpp"

#include <iostream>
#include <string_view>

using namespace paceline;

static int open(const char* path) {
  const auto source = model::open_model(path);
  const auto report = model::inspect_model(path);
  if (!source || !report) {
    std::cerr << (source ? report.error() : source.error()).message() << '\n';
    return 1;
  }
  std::cout << to_json(*report) << '\n';
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string_view command = argv[1];
  if (command == "open") return open(argv[2]);
  if (command != "write") return 2;
  test::make_tiny_gguf({.type = device::tensor_type::q8_0,
                        .num_layers = 3,
                        .hidden_size = 96,
                        .num_heads = 4,
                        .num_kv_heads = 2,
                        .head_dim = 24,
                        .ffn_size = 256})
      .write(argv[2]);
  return 0;
}
