#include "runtime/device/row_batch.hpp"

#include "runtime/base/check.hpp"

#include <string>
#include <vector>

namespace paceline::device {

void check_states(std::span<const row_state> rows, std::size_t num_rows, std::uint32_t num_slots) {
  PACELINE_CHECK(rows.size() == num_rows,
                 std::to_string(rows.size()) + " states of " + std::to_string(num_rows) + " rows");
  std::vector<bool> is_written(num_slots), is_read(num_slots);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const row_state& row = rows[r];
    PACELINE_CHECK(row.parent < static_cast<std::int64_t>(r),
                   "row " + std::to_string(r) + " stands before its parent");
    PACELINE_CHECK(row.parent < 0 || !row.read,
                   "row " + std::to_string(r) + " has a parent in the pass and a slot to read");
    if (row.read) {
      PACELINE_CHECK(row.read->value < num_slots, "state slot " + to_string(*row.read) + " does not exist");
      is_read[row.read->value] = true;
    }
    if (!row.write) continue;
    PACELINE_CHECK(row.write->value < num_slots, "state slot " + to_string(*row.write) + " does not exist");
    PACELINE_CHECK(!is_written[row.write->value],
                   "state slot " + to_string(*row.write) + " is written by two rows");
    is_written[row.write->value] = true;
  }
  for (std::uint32_t s = 0; s < num_slots; ++s)
    PACELINE_CHECK(!(is_written[s] && is_read[s]),
                   "state slot " + std::to_string(s) + " is read and written by one pass");
}

} // namespace paceline::device
