#pragma once

#include <map>
#include <set>
#include <unordered_map>

#include "storage/inventory.h"
#include "storage/log_state.h"
#include "storage/parked.h"
#include "storage/segment_index.h"
#include "tarrymq/storage/file_system.h"

namespace tarry {

/// Opens what a former run left in a log's directory (design-notes 2 and 3). Blocks; costs segments
/// and ack logs, but for unsealed tails, which are read through, cut behind their last whole record
/// and sealed for good.
class LogRecovery {
 public:
  LogRecovery(LogState& log, ShardStore& shard);
  [[nodiscard]] FileError run();

 private:
  struct Found {
    std::vector<uint32_t> record_parts, ack_parts;
    bool retired = false;  // it was being removed
  };
  /// A stream of which the parts that rule are known.
  struct Stream : OpenStream {
    uint64_t incarnation = 0;
    uint64_t size = 0;  // of the last part
  };
  struct Opening {
    Segment* segment = nullptr;
    uint32_t number = 0;
    Stream records;
    SegmentSummary summary;
    std::vector<std::byte> index;  // encoded, if it was needed
    bool index_known = false;
    bool sealed = false;         // has its trailer
    bool index_written = false;  // and its whole index, as far as is known
    ParkPlaces parks;
    std::vector<std::byte> acks;  // the ack log
    std::vector<LogStream::Part> ack_parts;
    bool in_batch = false;  // its parked records are only counted
    ParkedBatch batch;
    std::unordered_map<uint32_t, AckDying> dying;
    std::set<uint32_t> closed_moves;
  };

  /// One file of a stream as it was found.
  struct PartFile {
    std::string path;
    std::unique_ptr<File> file;
    uint64_t size = 0;
    FileHeader header;
  };

  // log_recovery_files.cc: which files there are, and what their headers say
  [[nodiscard]] FileError list(std::map<uint32_t, Found>& found);
  void report_vanished(const std::vector<DirectoryEntry>& entries);
  [[nodiscard]] FileError finish_removal(uint32_t number, const Found& found);
  [[nodiscard]] FileError put_aside_acks(uint32_t number, const Found& found);
  [[nodiscard]] FileError open_stream(uint32_t number, bool ack_log,
                                      const std::vector<uint32_t>& parts, uint64_t incarnation,
                                      Stream& out);
  enum class Fit : uint8_t { good, made_new, no };
  Fit judge_header(PartFile& part, const FileHeader& expected, HeaderCheck check);
  bool rebuild_header(PartFile& part, const FileHeader& expected);
  uint64_t incarnation_of_acks(uint32_t number, const Found& found);
  [[nodiscard]] FileError quarantine(uint32_t number, const Found& found);
  [[nodiscard]] FileError put_aside(const std::string& path);
  void report_file(const std::string& path, const std::string& what);
  /// The size at the last clean stop, if that is known.
  std::optional<uint64_t> size_at_stop(const std::string& path) const;

  std::vector<std::byte> read_all(Stream& stream);
  [[nodiscard]] FileError recover_segment(uint32_t number, const Found& found);
  bool read_trailer(Opening& opening);
  void scan(Opening& opening);
  /// The segment ends in something that is no whole record: a torn tail, unless it was stopped
  /// cleanly, or a later segment was sealed.
  void note_open_end(const Opening& opening, size_t from, size_t to);
  void report_open_ends();
  void seal(Opening& opening, SegmentIndex& index, uint32_t end);
  void load_index(Opening& opening);
  [[nodiscard]] FileError read_acks(Opening& opening, const Found& found);
  void report_damaged_acks(uint32_t segment, size_t from, size_t to);
  void apply(Opening& opening, const AckEvent& event, uint32_t offset);
  void mark_gone(Opening& opening, uint32_t first, uint32_t count);
  void take_stock(Opening& opening);
  void take_stock_of_run(Opening& opening, const IndexRun& run, uint32_t ordinal, uint32_t offset);
  void add_parked(Opening& opening, const IndexRun& run, uint32_t ordinal, uint32_t offset);
  void keep_batch(Opening& opening);
  bool read_at(Opening& opening, uint32_t offset, std::span<std::byte> out) {
    return window_.read(opening.records, opening.summary.footer_offset, offset, out);
  }

  LogState& log_;
  ShardStore& shard_;
  FileSystem& files_;
  const Inventory::Sizes* const inventory_;  // of this log at the last clean stop; null: unknown
  std::vector<std::string> open_ends_;       // what to report if a later segment was sealed
  StreamWindow window_;                      // of the segment being opened, for heads of records
};

}  // namespace tarry
