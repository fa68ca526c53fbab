#pragma once

#include "gpu/cuda_failure.hpp"
#include "runtime/device/stream.hpp"

#include <memory>
#include <string>

namespace paceline::gpu {

/// A stream of a GPU: a CUDA stream, and two threads of its own.
///
/// One thread issues: it runs the programs, each when the one before has been issued, and the fences it names
/// have passed or, those of the same device, been issued: for them the device waits (gpu/cuda_fence.hpp). It
/// waits for the device only where a program asks for results (`ops::deliver`). The other
/// completes: it sleeps in cudaEventSynchronize for the end of each program's work, in order, then passes the
/// program's fence. So no actor's thread ever waits, and the device has the next program's work while the
/// host still hears of the last one.
///
/// Why a thread and not cudaLaunchHostFunc: a host function is not called when the context has failed, so
/// that a lost device would leave fences that never pass; waiting for an event tells the failure. Why not one
/// thread that polls all events: it would burn a core, or be late.
std::unique_ptr<device::stream> make_cuda_stream(const device_context& on, std::string name,
                                                 device::stream_priority priority);

} // namespace paceline::gpu
