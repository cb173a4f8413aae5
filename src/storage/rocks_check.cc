#include "storage/rocks_check.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <vector>

#include "storage/record_codec.h"

namespace tarry {
namespace {

// RocksDB's log format ("Write Ahead Log File Format" of its wiki): blocks, and in them fragments
// of a masked CRC-32C, a length and a type in front of the bytes; a fragment does not cross a
// block.
constexpr size_t kBlockBytes = 32768, kFragmentHeadBytes = 7, kRecyclableHeadBytes = 11;
constexpr uint8_t kTypeMax = 8, kFirstRecyclableType = 5;

uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

/// Bytes of the whole fragment at `at`; 0 if there is none.
size_t fragment_bytes(ByteSpan log, size_t at) {
  const size_t left = std::min(kBlockBytes - at % kBlockBytes, log.size() - at);
  if (left < kFragmentHeadBytes) return 0;
  const std::byte* p = log.data() + at;
  const auto type = static_cast<uint8_t>(p[6]);
  if (type == 0 || type > kTypeMax) return 0;
  const size_t head = type >= kFirstRecyclableType ? kRecyclableHeadBytes : kFragmentHeadBytes;
  const size_t bytes = head + load_le<uint16_t>(p + 4);
  if (bytes > left) return 0;
  // Over the type and all behind it.
  const uint32_t crc = ~checksum(p + 6, bytes - 6, 0xffff'ffffu);
  return load_le<uint32_t>(p) == masked(crc) ? bytes : 0;
}

/// Where a log is damaged although whole fragments follow; its size if it is not.
size_t damage_inside(ByteSpan log) {
  size_t at = 0;
  while (at < log.size()) {
    const size_t block_left = kBlockBytes - at % kBlockBytes;
    if (block_left < kFragmentHeadBytes) {
      at += block_left;
      continue;
    }
    const size_t bytes = fragment_bytes(log, at);
    if (bytes == 0) break;
    at += bytes;
  }
  for (size_t next = at + 1; next < log.size(); ++next) {
    if (fragment_bytes(log, next) > kFragmentHeadBytes) return at;
  }
  return log.size();
}

/// Nothing if it cannot be read to its end.
std::optional<std::vector<char>> bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<char> bytes;
  std::array<char, 65536> block;
  while (in.read(block.data(), block.size()) || in.gcount() > 0) {
    bytes.insert(bytes.end(), block.begin(), block.begin() + in.gcount());
  }
  if (!in.eof() || in.bad()) return std::nullopt;
  return bytes;
}

bool is_log(const std::string& name) {
  return name.ends_with(".log") || name.starts_with("MANIFEST-");
}

}  // namespace

bool holds_a_database(const std::string& directory) {
  std::error_code ec;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ec)) {
    const std::string name = entry.path().filename();
    if (is_log(name) || name.ends_with(".sst") || name == "CURRENT") return true;
  }
  return false;
}

std::string find_silent_damage(const std::string& directory) {
  if (!holds_a_database(directory)) return {};
  std::error_code ec;
  if (!std::filesystem::exists(directory + "/CURRENT", ec)) {
    return directory + "/CURRENT is missing, though other files of the definitions are there";
  }
  for (const auto& entry : std::filesystem::directory_iterator(directory, ec)) {
    const std::string path = entry.path();
    if (!is_log(entry.path().filename())) continue;
    const auto bytes = bytes_of(path);
    if (!bytes) return path + " cannot be read";
    const size_t at = damage_inside(std::as_bytes(std::span(*bytes)));
    if (at < bytes->size()) return path + " is damaged at byte " + std::to_string(at);
  }
  return {};
}

}  // namespace tarry
