#include <rocksdb/convenience.h>
#include <rocksdb/write_batch.h>

#include <array>
#include <atomic>

#include "storage/due_store.h"
#include "storage/rocks_stores_db.h"
#include "tarrymq/runtime/bytes.h"
#include "tarrymq/runtime/log.h"

namespace tarry {
namespace {

// Layout: FORMAT_ROCKSDB.md "due".
constexpr size_t kKeyBytes = 24;
constexpr size_t kValueBytes = 26;
// So many range deletions since the last flush slow reads down.
constexpr uint32_t kRangeDeletesPerFlush = 1000;
using Key = std::array<std::byte, kKeyBytes>;
using Value = std::array<std::byte, kValueBytes>;

template <class Bytes>
rocksdb::Slice slice(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Key make_key(uint64_t generation, DueKey key) {
  Key bytes;
  store_be(bytes.data(), generation);
  store_be(bytes.data() + 8, key.due_ms);
  store_be(bytes.data() + 16, key.sequence);
  return bytes;
}

Value make_value(const DueItem& item) {
  Value bytes;
  std::byte* at = bytes.data();
  for (uint32_t v :
       {item.segment, item.ordinal, item.offset, item.counter, item.delay_ms, item.body_bytes}) {
    store_be(at, v);
    at += 4;
  }
  at[0] = std::byte{item.lane};
  at[1] = std::byte{item.kind};
  return bytes;
}

DueItem parse(const std::byte* key, const std::byte* value) {
  const auto sequence = load_be<uint64_t>(key + 16);
  return {.due_ms = load_be<uint64_t>(key + 8),
          .segment = load_be<uint32_t>(value),
          .ordinal = load_be<uint32_t>(value + 4),
          .offset = load_be<uint32_t>(value + 8),
          .counter = load_be<uint32_t>(value + 12),
          .delay_ms = load_be<uint32_t>(value + 16),
          .body_bytes = load_be<uint32_t>(value + 20),
          .sequence_low = static_cast<uint32_t>(sequence),
          .sequence_high = static_cast<uint16_t>(sequence >> 32),
          .lane = static_cast<uint8_t>(value[24]),
          .kind = static_cast<uint8_t>(value[25])};
}

class RocksDueTable final : public DueTable {
 public:
  explicit RocksDueTable(std::shared_ptr<RocksDb> db) : db_(std::move(db)) {
    write_options_.disableWAL = true;
  }

  bool put(uint64_t generation, std::span<const DueItem> items, bool may_wait) override {
    rocksdb::WriteBatch batch(items.size() * (kKeyBytes + kValueBytes + 8));
    for (const auto& item : items) {
      (void)batch.Put(db_->family(), slice(make_key(generation, item.key())),
                      slice(make_value(item)));  // memory only
    }
    auto options = write_options_;
    options.no_slowdown = !may_wait;
    return good(db_->db->Write(options, &batch), "writing");
  }

  bool read(uint64_t generation, DueKey from, uint64_t until_due_ms, size_t count_max,
            DuePage& page) override {
    const Key first = make_key(generation, from);
    const Key end = make_key(generation + 1, {});
    const auto upper = slice(end);
    rocksdb::ReadOptions options;
    options.iterate_upper_bound = &upper;
    options.fill_cache = false;
    options.total_order_seek = true;
    std::unique_ptr<rocksdb::Iterator> it(db_->db->NewIterator(options, db_->family()));
    for (it->Seek(slice(first)); it->Valid(); it->Next()) {
      if (it->key().size() != kKeyBytes || it->value().size() != kValueBytes) {
        log_for("storage")->error("due index: an entry of {} + {} bytes is skipped",
                                  it->key().size(), it->value().size());
        continue;
      }
      const auto item = parse(reinterpret_cast<const std::byte*>(it->key().data()),
                              reinterpret_cast<const std::byte*>(it->value().data()));
      if (page.items.size() == count_max || item.due_ms > until_due_ms) {
        page.next_due_ms = item.due_ms;
        break;
      }
      page.items.push_back(item);
    }
    return good(it->status(), "reading");
  }

  bool erase(uint64_t generation, DueKey before) override {
    const Key first = make_key(generation, {});
    const bool whole = before == kDueKeyMax;
    const Key end = whole ? make_key(generation + 1, {}) : make_key(generation, before);
    const auto from = slice(first), to = slice(end);
    if (whole && !good(rocksdb::DeleteFilesInRange(db_->db.get(), db_->family(), &from, &to, false),
                       "clearing")) {
      return false;
    }
    if (!good(db_->db->DeleteRange(write_options_, db_->family(), from, to), "clearing"))
      return false;
    if (++range_deletes_ >= kRangeDeletesPerFlush) {
      range_deletes_ = 0;
      rocksdb::FlushOptions flush;
      flush.wait = false;
      flush.allow_write_stall = true;
      (void)good(db_->db->Flush(flush, db_->family()),
                 "flushing");  // the next thousand tries again
    }
    return true;
  }

  bool erase_keys(uint64_t generation, std::span<const DueKey> keys) override {
    rocksdb::WriteBatch batch(keys.size() * (kKeyBytes + 8));
    for (const DueKey& key : keys)
      (void)batch.Delete(db_->family(), slice(make_key(generation, key)));  // memory only
    return good(db_->db->Write(write_options_, &batch), "clearing");
  }

 private:
  /// `Incomplete` is what no_slowdown says when background work lags behind: no error, only not
  /// now.
  bool good(const rocksdb::Status& status, const char* what) {
    if (status.ok()) return true;
    if (!status.IsIncomplete()) {
      log_for("storage")->warn("due index: {} failed and is tried again: {}", what,
                               status.ToString());
      (void)db_->db->Resume();  // if that fails, so will the next attempt
    }
    return false;
  }

  const std::shared_ptr<RocksDb> db_;
  rocksdb::WriteOptions write_options_;
  uint32_t range_deletes_ = 0;  // store thread only
};

}  // namespace

std::unique_ptr<DueTable> make_rocks_due_table(std::shared_ptr<RocksDb> db) {
  return std::make_unique<RocksDueTable>(std::move(db));
}

}  // namespace tarry
