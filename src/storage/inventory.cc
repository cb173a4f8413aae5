#include "storage/inventory.h"

#include <cinttypes>
#include <cstdio>
#include <sstream>
#include <vector>

#include "storage/record_codec.h"
#include "tarrymq/runtime/log.h"

namespace tarry {
namespace {

constexpr char kInventoryName[] = "/inventory";
constexpr char kInventoryWord[] = "tarrymq-inventory";
constexpr int kInventoryVersion = 1;

uint32_t text_checksum(const std::string& text) {
  return checksum(as_bytes(text).data(), text.size(), 0);
}

/// Lines "bytes path", the path below the data directory, of what is in `path` and below.
FileError list_sizes(FileSystem& files, const std::string& data_dir, const std::string& path,
                     std::string& out) {
  auto entries = files.list(data_dir + path);
  if (!entries) return entries.error();
  for (const DirectoryEntry& entry : *entries) {
    const std::string child = path + "/" + entry.name;
    if (entry.directory) {
      if (FileError error = list_sizes(files, data_dir, child, out)) return error;
    } else if (!entry.name.ends_with(".damaged")) {
      auto file = files.open(data_dir + child, FileSystem::Open::read);
      if (!file) return file.error();
      auto bytes = (*file)->size();
      if (!bytes) return bytes.error();
      out += std::to_string(*bytes) + " " + child + "\n";
    }
  }
  return {};
}

}  // namespace

FileError Inventory::write(FileSystem& files, const std::string& data_dir,
                           const std::string& definitions) {
  std::string lines = "definitions " + (definitions.empty() ? "?" : definitions) + "\n";
  if (FileError error = list_sizes(files, data_dir, "/queues", lines)) return error;
  char head[64];
  std::snprintf(head, sizeof head, "%s %d %08" PRIx32 "\n", kInventoryWord, kInventoryVersion,
                text_checksum(lines));
  const std::string text = head + lines, path = data_dir + kInventoryName, fresh = path + ".new";
  auto file = files.open(fresh, FileSystem::Open::create);
  if (!file) return file.error();
  const ByteSpan piece = as_bytes(text);
  FileError error = (*file)->truncate(0);
  if (!error) error = (*file)->pwritev({&piece, 1}, 0);
  if (!error) error = (*file)->sync_data();
  if (!error) error = files.rename(fresh, path);
  if (!error) error = files.sync_directory(data_dir);
  return error;
}

FileError Inventory::remove(FileSystem& files, const std::string& data_dir) {
  FileError error = files.unlink(data_dir + kInventoryName);
  if (error == boost::system::errc::no_such_file_or_directory) return {};
  if (!error) error = files.sync_directory(data_dir);
  return error;
}

Inventory Inventory::read(FileSystem& files, const std::string& data_dir) {
  Inventory inventory;
  const std::string path = data_dir + kInventoryName;
  auto file = files.open(path, FileSystem::Open::read);
  if (!file) return inventory;
  auto bytes = (*file)->size();
  std::string text(bytes ? *bytes : 0, '\0');
  auto read = (*file)->pread({reinterpret_cast<std::byte*>(text.data()), text.size()}, 0);
  std::istringstream in(text);
  std::string word, directory;
  int version = 0;
  uint32_t sum = 0;
  in >> word >> version >> std::hex >> sum >> std::dec;
  const size_t lines_at = std::min(text.find('\n'), text.size() - 1) + 1;
  if (!read || text.empty() || word != kInventoryWord || version != kInventoryVersion ||
      sum != text_checksum(text.substr(lines_at))) {
    log_for("storage")->error(
        "{} is damaged: files that vanished since the last stop may go unnoticed", path);
    return inventory;
  }
  in >> word >> inventory.definitions_;
  if (inventory.definitions_ == "?") inventory.definitions_.clear();
  uint64_t size = 0;
  while (in >> size && in.get() && std::getline(in, word)) {
    const size_t slash = word.rfind('/');
    inventory.sizes_[data_dir + word.substr(0, slash)][word.substr(slash + 1)] = size;
  }
  return inventory;
}

const Inventory::Sizes* Inventory::of(const std::string& directory) const {
  auto it = sizes_.find(directory);
  return it == sizes_.end() ? nullptr : &it->second;
}

}  // namespace tarry
