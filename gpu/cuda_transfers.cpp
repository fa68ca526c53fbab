// The transfers of the ops to the device and back.
#include "gpu/cuda_ops.hpp"
#include "gpu/packer.hpp"
#include "runtime/base/check.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace paceline::gpu {

const std::byte* cuda_ops::send_bytes(std::span<const std::byte> bytes) {
  const mirrored_piece piece = arena_.take(bytes.size());
  if (!bytes.empty()) std::memcpy(piece.host, bytes.data(), bytes.size());
  steps_.copy_in(piece.device, piece.host, bytes.size());
  return piece.device;
}

cuda_ops::block_tables cuda_ops::tables_of(std::span<const device::sequence_kv> sequences) {
  block_tables out;
  for (const device::sequence_kv& sequence : sequences) {
    out.first_block.push_back(static_cast<std::uint32_t>(out.blocks.size()));
    out.blocks.insert(out.blocks.end(), sequence.blocks.begin(), sequence.blocks.end());
  }
  return out;
}

batch_view cuda_ops::send_batch(const device::row_batch& batch) {
  if (chain_) return chain_->batch;
  const auto [blocks, first_block] = tables_of(batch.sequences);
  packer packed(next_batch_);
  // The sizes come first, so that equal bytes mean equal batches.
  const std::uint64_t sizes[] = {batch.rows.size(), batch.paths.size(), blocks.size(), first_block.size()};
  packed.add(std::span<const std::uint64_t>(sizes));
  // What grows with the context comes last, and apart: the places of the others are parameters of kernels,
  // and a pass of the same rows is the same graph only with the same parameters.
  const std::size_t rows_at = packed.add(batch.rows);
  const std::size_t first_at = packed.add(std::span<const std::uint32_t>(first_block));
  const std::size_t paths_at = packed.add(batch.paths);
  const std::size_t blocks_at = packed.add(std::span<const block_id>(blocks), 1024);
  if (next_batch_ == sent_batch_) return sent_view_;
  const std::byte* const at = send(std::span<const std::byte>(next_batch_));
  sent_view_ = {reinterpret_cast<const device::batch_entry*>(at + rows_at),
                reinterpret_cast<const kv_slot*>(at + paths_at),
                reinterpret_cast<const block_id*>(at + blocks_at),
                reinterpret_cast<const std::uint32_t*>(at + first_at)};
  sent_batch_.swap(next_batch_);
  return sent_view_;
}

const row_tile* cuda_ops::send_tiles(const std::vector<row_tile>& tiles) {
  const auto equal = [](const row_tile& a, const row_tile& b) {
    return a.first_row == b.first_row && a.num_rows == b.num_rows;
  };
  if (!std::ranges::equal(tiles, sent_tiles_, equal)) {
    tiles_there_ = send(std::span<const row_tile>(tiles));
    sent_tiles_ = tiles;
  }
  return tiles_there_;
}

const std::byte* cuda_ops::send_once(std::vector<std::byte> bytes, sent_bytes& last) {
  if (last.there == nullptr || bytes != last.bytes) {
    last.there = send(std::span<const std::byte>(bytes));
    last.bytes = std::move(bytes);
  }
  return last.there;
}

void cuda_ops::forget_shared() {
  sent_tiles_.clear();
  sent_conv_ = sent_steps_ = {};
}

std::span<float> cuda_ops::scratch(std::size_t num_values) {
  const std::size_t num_bytes = num_values * sizeof(float);
  PACELINE_CHECK(num_bytes / sizeof(float) == num_values, "scratch: size overflows");
  steps_.make_room(scratch_, num_bytes);
  return {reinterpret_cast<float*>(scratch_.data()), num_values};
}

std::byte* cuda_ops::place_bytes(std::span<std::byte> host) {
  places_.push_back({host, arena_.take(host.size())});
  return places_.back().at.device;
}

float* cuda_ops::place_for(std::span<float> host) {
  return reinterpret_cast<float*>(place_bytes(std::as_writable_bytes(host)));
}

void cuda_ops::deliver() {
  if (chain_ || places_.empty()) return;
  for (const placed& p : places_) steps_.copy_out(p.at.host, p.at.device, p.host.size());
  steps_.finish();
  for (const placed& p : places_)
    if (!p.host.empty()) std::memcpy(p.host.data(), p.at.host, p.host.size());
  pool_.give_back(forget_sent()); // the device has done all copies
}

std::vector<std::unique_ptr<mirrored_pool::slab>> cuda_ops::forget_sent() {
  steps_.forget();
  places_.clear();
  sent_batch_.clear();
  forget_shared();
  return arena_.release();
}

} // namespace paceline::gpu
