#pragma once

#include "runtime/model/loader/gguf/gguf_model.hpp"
#include "tests/support/gguf_builder.hpp"

namespace paceline::test {

/// A config, or the error of the first step that failed. The bytes need not outlive it.
inline expected<model::model_config> open(const gguf_builder& builder) {
  const auto bytes = builder.build();
  const auto file = model::gguf_file::parse(bytes, "x.gguf");
  if (!file) return file.error();
  auto config = model::read_gguf_config(*file);
  if (!config) return config;
  if (auto weights = model::read_gguf_weights(*file, *config); !weights) return weights.error();
  return config;
}

inline error problem(const gguf_builder& builder) {
  const auto config = open(builder);
  return config ? error(errc::internal, "was accepted") : config.error();
}

} // namespace paceline::test
