#pragma once

#include <memory>
#include <span>
#include <string>

#include "storage/segment_files.h"

namespace tarry {

class LogState;

/// A read that the store's thread does for a log. `log` belongs to the shard (null: the log is
/// gone); the rest is the store thread's until it is back.
class ReadRequest {
 public:
  explicit ReadRequest(FileSystem& files_of_store) : store_files(files_of_store) {}
  void run();     // store's thread
  void resync();  // store's thread: looks for the next whole record behind `ordinal`

  FileSystem& store_files;
  LogState* log = nullptr;
  std::shared_ptr<SegmentFiles> files;
  LogStream::Reader reader;
  uint32_t segment = 0, start = 0, bytes = 0;
  std::unique_ptr<std::byte[]> data;
  bool outdated = false;  // begun before what is there was changed
  // resync(): where the damage is, how many ordinals there are, and what was found (count:
  // nothing).
  bool resyncs = false;
  bool finds_gap = false;  // it was not the cursor that came by
  uint32_t ordinal = 0, count = 0, next = 0, next_offset = 0;
};

/// Likewise, of an error text in a segment's ack log.
class ErrorReading {
 public:
  explicit ErrorReading(FileSystem& files_of_store) : store_files(files_of_store) {}
  void run();  // store's thread

  FileSystem& store_files;
  LogState* log = nullptr;
  std::shared_ptr<SegmentFiles> files;
  LogStream::Reader reader;
  uint32_t segment = 0, place = 0;  // where its length is
  std::string text;
};

void read_with_holes(File& file, std::span<std::byte> out, uint64_t offset);

}  // namespace tarry
