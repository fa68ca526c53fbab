#pragma once

#include <benchmark/benchmark.h>

namespace paceline {

/// Runs what a program has registered, as its arguments say. Returns its exit code: 1 for an unknown
/// argument.
inline int run_benchmarks(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

} // namespace paceline
