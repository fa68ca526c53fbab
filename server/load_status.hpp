#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace paceline::server {

/// Progress of reading the weights of a model, or of a drafter with a model of its own.
struct load_part {
  std::string model;
  std::string drafter;          ///< empty: the model itself
  std::uint64_t bytes_read = 0; ///< up to `num_bytes`
  /// Before reading begins, the size of the files; afterwards, the exact number. 0 if there are no weights.
  std::uint64_t num_bytes = 0;

  /// load_progress::stage of this part.
  std::string stage() const { return drafter.empty() ? model : model + "/" + drafter; }
};

/// The progress of loading all models.
struct load_status {
  std::vector<load_part> parts;

  /// Share of all bytes that has been read, 0 to 1; 0 if there are no weights.
  double share() const {
    std::uint64_t read = 0;
    std::uint64_t all = 0;
    for (const auto& part : parts) read += part.bytes_read, all += part.num_bytes;
    return all == 0 ? 0.0 : static_cast<double>(read) / static_cast<double>(all);
  }
  /// The same in whole per cent.
  int percent() const { return static_cast<int>(100 * share()); }
};

} // namespace paceline::server
