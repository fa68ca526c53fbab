#include "gpu/product_inputs.hpp"

#include "gpu/pieces.hpp"

namespace paceline::gpu {

arranged_rows arrange(step_queue& steps, memory& room, const device_rows& rows, std::uint32_t num_tiles,
                      const device::input_norm& norm) {
  arranged_rows out;
  out.num_units = pieces(rows.num_cols, split_cols) * (split_cols / unit_cols);
  out.num_tiles = num_tiles;
  const std::size_t all_tiles = std::size_t{out.num_units} * out.num_tiles;
  const std::size_t of_halves = all_tiles * token_tile * unit_cols * 2;
  const std::size_t of_sums = all_tiles * token_tile * sizeof(float); // and of the sums' halves
  const std::size_t all_rows = std::size_t{out.num_tiles} * token_tile;
  steps.make_room(room, of_halves + 2 * of_sums + all_rows * sizeof(float));
  std::byte* const at = room.data();
  out.halves = at;
  out.sums = reinterpret_cast<float*>(at + of_halves);
  out.sum_halves = at + of_halves + of_sums;
  out.scales = reinterpret_cast<float*>(at + of_halves + 2 * of_sums);
  steps.launch(
      kernel_id::arrange_rows,
      {pieces(std::size_t{out.num_units} * 4, arrange_threads), rows.num_rows, arrange_threads,
       arrange_shared_bytes(rows.num_cols, norm.weight != nullptr)},
      arrange_rows_params{rows.x, rows.stride, rows.num_rows, rows.num_cols, norm.weight, norm.epsilon, out});
  return out;
}

quantised_rows quantise(step_queue& steps, memory& room, const device_rows& rows, std::uint32_t num_planes) {
  constexpr std::uint32_t threads = 128;
  const std::uint32_t blocks_of_row = rows.num_cols / quantised_block;
  const std::size_t num_blocks = std::size_t{rows.num_rows} * num_planes * blocks_of_row;
  const std::size_t of_scales = num_blocks * sizeof(float);
  const std::size_t of_sums = num_blocks * 2 * sizeof(std::int16_t);
  steps.make_room(room, of_scales + of_sums + num_blocks * quantised_block);
  std::byte* const at = room.data();
  const quantised_rows out{reinterpret_cast<std::int8_t*>(at + of_scales + of_sums),
                           reinterpret_cast<float*>(at), reinterpret_cast<std::int16_t*>(at + of_scales)};
  steps.launch(kernel_id::quantise_rows, {pieces(blocks_of_row, threads), rows.num_rows, threads, 0},
               quantise_rows_params{rows.x, rows.stride, rows.num_cols, num_planes, out});
  return out;
}

} // namespace paceline::gpu
