#pragma once

#include <benchmark/benchmark.h>

namespace paceline {

/// Runs the program's registered Google Benchmark cases, as its arguments select. Returns the program's exit
/// code: 1 for an unknown argument.
inline int run_benchmarks(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

} // namespace paceline
