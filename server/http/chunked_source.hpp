#pragma once

#include "protocol/wire/text_source.hpp"
#include "server/http/http_writer.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace paceline::server {

/// Wraps a source so that each of its pieces becomes a chunk of a chunked HTTP body.
class chunked_source final : public wire::text_source {
 public:
  explicit chunked_source(std::unique_ptr<wire::text_source> inner) : inner_(std::move(inner)) {}
  std::string next(std::size_t num_bytes) override {
    const auto piece = inner_->next(num_bytes);
    return piece.empty() ? piece : write_chunk(piece); // an empty chunk would end the body
  }
  bool at_end() const noexcept override { return inner_->at_end(); }
  std::size_t num_bytes() const noexcept override { return inner_->num_bytes(); }
  std::vector<shared_part> shared() const override { return inner_->shared(); }

 private:
  std::unique_ptr<wire::text_source> inner_;
};

inline std::unique_ptr<wire::text_source> in_chunks(std::unique_ptr<wire::text_source> inner) {
  return std::make_unique<chunked_source>(std::move(inner));
}

} // namespace paceline::server
