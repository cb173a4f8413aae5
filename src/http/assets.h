#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace tarry::http {

/// A file of src/http/pages, as it was when this was built. Lives as long as the program.
struct AssetBytes {
  std::string_view path;  // below src/http/pages, for example "js/main.js"
  const unsigned char* data;
  size_t size;
  std::string_view text() const { return {reinterpret_cast<const char*>(data), size}; }
};

/// All of them, sorted by path. Made by cmake/pages.cmake.
std::span<const AssetBytes> page_assets();
/// A hash over all of them: another one, if any byte of them is another.
std::string_view page_assets_version();

}  // namespace tarry::http
