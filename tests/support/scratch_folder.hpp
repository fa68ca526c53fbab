#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace paceline::test {

/// An empty folder that no other test uses, in this process or another one; removed by the destructor. Tests
/// run in parallel, and two of one fixture must not use the same file.
class scratch_folder {
 public:
  scratch_folder() {
    std::string name = std::filesystem::temp_directory_path() / "paceline-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder " + name);
    path_ = name;
  }
  ~scratch_folder() {
    std::error_code ignored; // a test may have removed permissions or the folder itself
    std::filesystem::remove_all(path_, ignored);
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

} // namespace paceline::test
